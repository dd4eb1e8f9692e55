package main

import (
	"errors"
	"io"
	"net"
)

// echoServers send back whatever comes, at a TCP and a UDP address; an empty one is left out. The function it gives closes them.
func echoServers(tcp, udp string) (func(), error) {
	var open []io.Closer
	closeAll := func() {
		for _, c := range open {
			_ = c.Close()
		}
	}
	if tcp != "" {
		listener, err := net.Listen("tcp", tcp)
		if err != nil {
			return nil, err
		}
		open = append(open, listener)
		go echoTCP(listener)
	}
	if udp != "" {
		conn, err := net.ListenPacket("udp", udp)
		if err != nil {
			closeAll()
			return nil, err
		}
		open = append(open, conn)
		go echoUDP(conn)
	}
	return closeAll, nil
}

func echoTCP(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			_, _ = io.Copy(conn, conn)
			_ = conn.Close()
		}()
	}
}

func echoUDP(conn net.PacketConn) {
	packet := make([]byte, 1<<16)
	for {
		n, from, err := conn.ReadFrom(packet)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			_, _ = conn.WriteTo(packet[:n], from)
		}
	}
}
