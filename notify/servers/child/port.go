package child

import (
	"errors"
	"fmt"
	"math/rand/v2"
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
	held, err := bind(syscall.SOCK_DGRAM, port)
	if err != nil {
		return err
	}
	if err := CanListen(port); err != nil {
		syscall.Close(held)
		return err
	}
	return nil
}

// CanListen returns an error if no server can listen at a port of 127.0.0.1: EADDRINUSE if another one does. It does not
// listen itself, since a child that is being started has copies of all sockets until its program begins: one that only is
// bound keeps nobody from listening.
func CanListen(port int) error {
	socket, err := bind(syscall.SOCK_STREAM, port)
	if err != nil {
		return err
	}
	return syscall.Close(socket)
}

// bind binds a port of 127.0.0.1. It returns a bare descriptor, since package net closes its
// own when they are garbage.
func bind(kind, port int) (int, error) {
	syscall.ForkLock.RLock()
	socket, err := syscall.Socket(syscall.AF_INET, kind, 0)
	if err == nil {
		syscall.CloseOnExec(socket)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return 0, err
	}
	if kind == syscall.SOCK_STREAM { // as servers do: connections that have ended hold the port for a minute
		err = syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	}
	if err == nil {
		err = syscall.Bind(socket, &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
	}
	if err != nil {
		syscall.Close(socket)
		return 0, err
	}
	return socket, nil
}
