package store

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
)

var (
	bridgeScript = script("bridge")
	secretScript = script("secret", promised)
	rotateScript = script("rotate", promised)
)

// BridgeTo records the position up to which broadcasts were passed on to NATS, and
// returns the recorded one: it never goes back, and is 0 if none were. Errors: an
// ErrInvalid if the recorded position is foreign, see [Store.Check], or that of the
// connection.
func (s Shard) BridgeTo(ctx context.Context, to Position) (Position, error) {
	r, err := s.run(ctx, bridgeScript, int64(to))
	if err != nil {
		return 0, err
	}
	at := r.text()
	if err := r.end(); err != nil {
		return 0, err
	}
	return ParsePosition(at)
}

const secretSize = 32 // random bytes in a secret

// ErrNoSecret is the error of a key that holds no secret of a store's daemons.
var ErrNoSecret = errors.New("it holds no secret of ours")

// Secret returns the secret with which the daemons of a store sign. The first call
// makes it. Errors: an ErrNoSecret, see [Store.Check], an ErrUnreplicated, or that
// of the connection.
func (s Shard) Secret(ctx context.Context) (string, error) {
	r, err := s.run(ctx, secretScript, newSecret())
	if err != nil {
		return "", err
	}
	secret := r.text()
	if err := r.end(); err != nil {
		return "", err
	}
	if len(secret) < secretSize {
		return "", fmt.Errorf("%s is foreign: %w; delete it", s.store.known()[s.number].keys.Secret(), ErrNoSecret)
	}
	return secret, nil
}

// newSecret returns a random secret.
func newSecret() string {
	random := make([]byte, secretSize)
	_, _ = rand.Read(random) // never fails
	return hex.EncodeToString(random)
}

// RotateSecret replaces the secret, in the shard that is Home. Within some seconds all
// daemons refuse what was signed before: every cookie of the console, so that all log in
// again, and the settle tokens of NATS, whose messages are delivered again when their
// leases end. Errors: an ErrUnreplicated, or that of the connection.
func (s Shard) RotateSecret(ctx context.Context) error {
	r, err := s.run(ctx, rotateScript, newSecret())
	if err == nil {
		err = r.end()
	}
	if err != nil {
		return fmt.Errorf("rotate the secret: %w", err)
	}
	return nil
}
