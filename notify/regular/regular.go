// Package regular reads files that a configuration names. It refuses pipes and
// devices, since reading one might never end.
package regular

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// MaxSize is the size of the largest file that Read reads, in bytes.
const MaxSize = 16 << 20

// Read returns the contents of a regular file, or of one that a link leads to. It
// never waits for a pipe or device. The error is a *fs.PathError.
func Read(name string) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // without O_NONBLOCK opening a pipe waits for a writer
	if err != nil {
		return nil, err
	}
	defer f.Close()
	switch about, err := f.Stat(); {
	case err != nil:
		return nil, err
	case !about.Mode().IsRegular():
		return nil, &fs.PathError{Op: "read", Path: name, Err: errors.New("it is not a regular file; name one that is")}
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err == nil && len(data) > MaxSize {
		err = &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("it has more than %d bytes", MaxSize)}
	}
	return data, err
}

// ReadKeyPair returns the certificates of one PEM file with the private key of another.
func ReadKeyPair(certFile, keyFile string) (tls.Certificate, error) {
	cert, err := Read(certFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := Read(keyFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(cert, key)
}
