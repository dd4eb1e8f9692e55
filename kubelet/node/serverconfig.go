package node

// HealthzPort is where a kubelet tells who asks on its own machine whether it is well.
const HealthzPort = 10248

// Server says what a node with real containers serves and to whom.
type Server struct {
	Off     bool   // --enable-server=false: no exec, logs, metrics ...
	Address string // --address; "": all of the machine's
	Port    int    // --port; 0: 10250

	HealthzAddress string // --healthz-bind-address; "": 127.0.0.1
	HealthzPort    int    // --healthz-port; 0: none

	// CertFile and KeyFile are what the server shows (--tls-cert-file, --tls-private-key-file). Without them a certificate is asked for, or, with SelfSigned
	// (--rotate-server-certificates=false), one is made that nobody else has signed.
	CertFile, KeyFile string
	SelfSigned        bool
	TLSMinVersion     uint16   // --tls-min-version; 0: TLS 1.2
	TLSCipherSuites   []uint16 // --tls-cipher-suites of TLS 1.2; nil: modern ones

	ClientCAFile string // --client-ca-file: who signs those who may come; "": the authority of the kubeconfig
	Anonymous    bool   // --anonymous-auth
	NoTokens     bool   // --authentication-token-webhook=false: only client certificates
	AllowAll     bool   // --authorization-mode=AlwaysAllow: who is known may do anything
}
