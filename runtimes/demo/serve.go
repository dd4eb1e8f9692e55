package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// options are the flags of `demo serve`.
type options struct {
	address     string        // host:port of the web server
	tcp, udp    string        // host:port of the echo servers, empty: none
	version     string        // what / and /version say
	startDelay  time.Duration // how long /startz, /readyz and /healthz fail at first
	unready     bool          // /readyz fails until /readyz?set=ok
	drain       time.Duration // how long requests are still answered after SIGTERM
	quiet       bool
	tlsCert     string
	tlsKey      string
	exitOnStart int // when not negative, end with this status after startDelay
}

// serve runs the web server until SIGTERM or SIGINT, then lets requests under way finish. Every request is a line on out.
// It speaks HTTP/1.1 and HTTP/2 without TLS on one port, the latter for the gRPC health service.
//
//	/                 who this is, as text
//	/hostname         the host's name alone
//	/version          the version alone
//	/healthz /readyz /startz
//	                  200 "ok" or 503; ?set=fail and ?set=ok switch it; readyz fails after SIGTERM
//	/env[?name=N]     environment, or one variable
//	/file?path=P      a file's content
//	/ls?path=P        a directory
//	/headers          the request, as it came; /echo gives its body back
//	/fetch?url=U      what this pod gets from there
//	/stream?n=N&every=D  a line each D
//	/status?code=C    answers with C
//	/delay?for=D      answers after D
//	/exit?code=N      ends the process
//	/hog?mb=N         allocates and holds N MB; /spin?for=D burns a processor
//	/log?text=T&n=N   writes T to stdout N times; &to=stderr
//	/grpc.health.v1.Health/Check  gRPC health; services "", "ready" and "live"
func serve(args []string, out io.Writer) error {
	var o options
	flags := flag.NewFlagSet("demo serve", flag.ContinueOnError)
	flags.StringVar(&o.address, "listen", ":8080", "host:port of the web server")
	flags.StringVar(&o.tcp, "tcp-echo", "", "host:port of a TCP server that sends everything back")
	flags.StringVar(&o.udp, "udp-echo", "", "host:port of a UDP server that sends everything back")
	flags.StringVar(&o.version, "version-text", os.Getenv("DEMO_VERSION"), "what it says its version is")
	flags.DurationVar(&o.startDelay, "start-delay", 0, "fail all health checks for so long at first")
	flags.BoolVar(&o.unready, "unready", false, "fail /readyz until it is switched on")
	flags.DurationVar(&o.drain, "drain", 0, "go on answering for so long after SIGTERM, /readyz failing")
	flags.BoolVar(&o.quiet, "quiet", false, "do not log requests")
	flags.StringVar(&o.tlsCert, "tls-cert", "", "serve HTTPS with this certificate")
	flags.StringVar(&o.tlsKey, "tls-key", "", "key of --tls-cert")
	flags.IntVar(&o.exitOnStart, "exit-after-start", -1, "end with this status when --start-delay is over")
	if err := flags.Parse(args); err != nil {
		return exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return newServer(o, slog.New(slog.NewTextHandler(out, nil))).run(ctx)
}

func (s *server) run(ctx context.Context) error {
	listener, err := net.Listen("tcp", s.options.address)
	if err != nil {
		return err
	}
	closeEcho, err := echoServers(s.options.tcp, s.options.udp)
	if err != nil {
		return err
	}
	defer closeEcho()
	if s.options.exitOnStart >= 0 {
		time.Sleep(s.options.startDelay)
		return exit(s.options.exitOnStart)
	}
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	web := &http.Server{Handler: s.routes(), Protocols: &protocols, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() {
		if s.options.tlsCert != "" {
			ended <- web.ServeTLS(listener, s.options.tlsCert, s.options.tlsKey)
		} else {
			ended <- web.Serve(listener)
		}
	}()
	s.log.Info("serving", "address", listener.Addr().String(), "version", s.options.version)
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	s.ready.fail()
	s.log.Info("ending")
	time.Sleep(s.options.drain)
	deadline, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := web.Shutdown(deadline); err != nil {
		return fmt.Errorf("finish requests: %w", err)
	}
	s.log.Info("ended")
	return nil
}
