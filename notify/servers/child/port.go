package child

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
)

// The ports that are held are below those that kernels give to whoever asks
// for any, or connects to somebody: from 32768 on Linux, from 49152 elsewhere.
const (
	lowestPort  = 10_000
	highestPort = 32_767
)

// mostTries is how many ports are tried: a machine on which none of them is free has other troubles.
const mostTries = 1000

var errNoPort = fmt.Errorf("hold a port: none of %d that were tried between %d and %d is free", mostTries, lowestPort, highestPort)

// HoldPort returns a port of 127.0.0.1 that nobody uses, and holds it.
func HoldPort() (int, error) {
	for range mostTries {
		port := lowestPort + rand.IntN(highestPort-lowestPort+1)
		switch err := Hold(port); {
		case err == nil:
			return port, nil
		case !errors.Is(err, syscall.EADDRINUSE):
			return 0, fmt.Errorf("hold a port: %w", err)
		}
	}
	return 0, errNoPort
}

// Hold holds a port of 127.0.0.1 for a server that may be stopped and started
// again at it: nobody else can hold it, in whichever process, until this process
// ends. The error is EADDRINUSE where somebody does, or listens at it. What holds
// it is the UDP port of the same number, which a server of TCP leaves alone.
func Hold(port int) error {
	held, err := bind(port)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		syscall.Close(held)
		return err
	}
	return l.Close()
}

// bind opens the UDP port. It is a bare descriptor, since those of package net
// are closed when nothing refers to them any more.
func bind(port int) (int, error) {
	syscall.ForkLock.RLock()
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM, 0)
	if err == nil {
		syscall.CloseOnExec(socket)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return 0, err
	}
	if err := syscall.Bind(socket, &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		syscall.Close(socket)
		return 0, err
	}
	return socket, nil
}
