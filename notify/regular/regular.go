// Package regular reads the files that settings name. A pipe or a device in the
// place of one would be waited for without an end, so it is refused.
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

// MaxSize is how many bytes a file may have that a setting names.
const MaxSize = 16 << 20

// Read returns what stands in a regular file, to which links may lead. The error
// is a *fs.PathError, and that at once whatever the file is.
func Read(name string) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // or to open a pipe waits for who writes to it
	if err != nil {
		return nil, err
	}
	defer f.Close()
	switch about, err := f.Stat(); {
	case err != nil:
		return nil, err
	case !about.Mode().IsRegular():
		return nil, &fs.PathError{Op: "read", Path: name, Err: errors.New("it is no regular file; name one that is")}
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err == nil && len(data) > MaxSize {
		err = &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("it has more than %d bytes", MaxSize)}
	}
	return data, err
}

// ReadKeyPair returns the PEM certificates of one file with the PEM private key of another.
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
