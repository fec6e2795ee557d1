package child

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
)

// Held ports are below those that kernels choose for a listener without a port, and
// for outgoing connections: from 32768 on Linux, from 49152 elsewhere.
const (
	lowestPort  = 10_000
	highestPort = 32_767
)

// maxTries is how many ports HoldPort tries: a machine on which none of them is free has other troubles.
const maxTries = 1000

var errNoPort = fmt.Errorf("hold a port: tried %d ports between %d and %d, and none is free", maxTries, lowestPort, highestPort)

// HoldPort holds a random free port of 127.0.0.1, as [Hold] does, and returns it.
func HoldPort() (int, error) {
	for range maxTries {
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

// Hold holds a port of 127.0.0.1 for a server, which may then be stopped and started
// again there: until this process ends, no process can hold the port as well. The
// error is EADDRINUSE if another one holds the port or listens there. Hold binds the
// UDP port of the same number, which does not disturb a TCP server.
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

// bind binds the UDP port. It returns a bare descriptor, since package net closes its
// own when they are garbage.
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
