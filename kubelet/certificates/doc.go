// Package certificates gets a kubelet its certificates and renews them: the client certificate by which the API server knows it (Client), and the
// serving certificate that its own server shows (Serving).
//
// Both are asked for with CertificateSigningRequests, wait until somebody has approved and signed them, and are kept in files with upstream's names. A new
// one is asked for after seven to nine tenths of a certificate's life, so that many nodes do not ask at once. Who uses a certificate looks at its file:
// pki.ClientConfig and pki.KeyPair do. Who approves which request is not decided here: controllers/certificates does that.
package certificates
