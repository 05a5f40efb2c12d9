package main

import (
	"flag"
	"fmt"
	"io"
	"net/netip"
)

// exampleMessage is the size of the one message each way of rdma_server and
// rdma_client, whose content does not matter.
const exampleMessage = 16

func exampleOptions(name string, args []string) (addr, source netip.Addr, port int, err error) {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.Func("s", "the server's address", addrOption(&addr))
	f.Func("I", "the client's address, which the tool itself cannot be told", addrOption(&source))
	f.IntVar(&port, "p", 7471, "port")
	err = f.Parse(args)
	if err == nil && (port < 1 || port > 65535) {
		err = fmt.Errorf("-p %d, want 1 to 65535", port)
	}
	return addr, source, port, err
}

// rdmaServer answers one message with one.
func rdmaServer(args []string, out io.Writer) error {
	addr, _, port, err := exampleOptions("rdma_server", args)
	if err != nil {
		return err
	}
	own, err := ownAddress(addr, netip.Addr{})
	if err != nil {
		return err
	}
	e, err := open(own)
	if err != nil {
		return err
	}
	defer e.close()
	l, err := e.dev.Listen(netip.AddrPortFrom(own, uint16(port)))
	if err != nil {
		return err
	}
	defer l.Close()
	fmt.Fprintln(out, "listening on", l.Addr())
	c, err := e.accept(l, firstClient, receives{1, exampleMessage})
	if err != nil {
		return err
	}
	defer c.close()
	if err := wantExample(c); err != nil {
		return err
	}
	if err := c.send(make([]byte, exampleMessage)); err != nil {
		return err
	}
	fmt.Fprintln(out, "answered")
	return nil
}

// rdmaClient sends one message and waits for one.
func rdmaClient(args []string, out io.Writer) error {
	addr, source, port, err := exampleOptions("rdma_client", args)
	if err != nil {
		return err
	}
	if !addr.IsValid() {
		return fmt.Errorf("want -s and the server's address")
	}
	own, err := ownAddress(source, addr)
	if err != nil {
		return err
	}
	e, err := open(own)
	if err != nil {
		return err
	}
	defer e.close()
	c, err := e.dial(netip.AddrPortFrom(addr, uint16(port)), 1, receives{1, exampleMessage})
	if err != nil {
		return err
	}
	defer c.close()
	if err := c.send(make([]byte, exampleMessage)); err != nil {
		return err
	}
	if err := wantExample(c); err != nil {
		return err
	}
	fmt.Fprintln(out, "was answered")
	return nil
}

func wantExample(c *conn) error {
	b, err := c.receive()
	if err == nil && len(b) != exampleMessage {
		err = fmt.Errorf("message of %d bytes, want %d", len(b), exampleMessage)
	}
	return err
}
