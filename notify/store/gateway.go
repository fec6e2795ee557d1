package store

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
)

var (
	bridgeScript = script.New("bridge")
	secretScript = script.New("secret", script.Promised)
	rotateScript = script.New("rotate", script.Promised)
	logoutScript = script.New("logout", script.Promised)
)

// BridgeTo records the position up to which broadcasts were passed on to NATS, and
// returns the recorded one: it never goes back, and is 0 if none were. Errors: an
// ErrInvalid if the recorded position is foreign, see [Store.Check], or that of the
// connection.
func (s Shard) BridgeTo(ctx context.Context, to record.Position) (record.Position, error) {
	r, err := s.Run(ctx, bridgeScript, int64(to))
	if err != nil {
		return 0, err
	}
	at := r.Text()
	if err := r.End(); err != nil {
		return 0, err
	}
	return record.ParsePosition(at)
}

const secretSize = 32 // random bytes in a secret

// ErrNoSecret is the error of a key that holds no secret of a store's daemons.
var ErrNoSecret = errors.New("it holds no secret of ours")

// Secret returns the secret with which the daemons of a store sign, and the logouts that
// are noted. The first call makes it. Errors: an ErrNoSecret, see [Store.Check], an
// ErrUnreplicated, or that of the connection.
func (s Shard) Secret(ctx context.Context) (secret string, ended Logouts, err error) {
	r, err := s.Run(ctx, secretScript, newSecret())
	if err != nil {
		return "", Logouts{}, err
	}
	secret = r.Text()
	for l := r.List(); l.More(); {
		ended.add(l.Text(), time.UnixMicro(l.Due()))
	}
	if err := r.End(); err != nil {
		return "", Logouts{}, err
	}
	if len(secret) < secretSize {
		return "", Logouts{}, fmt.Errorf("%s is foreign: %w; delete it", s.Keys().Secret(), ErrNoSecret)
	}
	return secret, ended, nil
}

// The most logouts that are noted, and for how long beyond the life of what they ended:
// the clocks of daemons and of Redis differ.
const (
	mostLogouts = 1000
	logoutsStay = time.Hour
)

// Logouts are logins to the console that ended before their time. The zero value has none.
type Logouts struct {
	all   map[string]bool
	first time.Time // until which the login would have been good that is forgotten next
}

func (l *Logouts) add(id string, good time.Time) {
	if l.all == nil {
		l.all, l.first = make(map[string]bool), good
	}
	l.all[id] = true
}

// Has reports whether a login ended that would be good until a time. Where more logins
// ended than are noted, all that would end before those count as ended, too.
func (l Logouts) Has(id string, good time.Time) bool {
	return l.all[id] || len(l.all) >= mostLogouts && !good.After(l.first)
}

// Logout notes that a login to the console ended that would be good until a time, in the
// shard that is Home. Within some seconds all daemons refuse its cookie. Errors: an
// ErrUnreplicated, or that of the connection.
func (s Shard) Logout(ctx context.Context, id string, good time.Time) error {
	r, err := s.Run(ctx, logoutScript, id, good.UnixMilli(), mostLogouts, logoutsStay.Milliseconds())
	if err == nil {
		err = r.End()
	}
	if err != nil {
		return fmt.Errorf("note a logout: %w", err)
	}
	return nil
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
	r, err := s.Run(ctx, rotateScript, newSecret())
	if err == nil {
		err = r.End()
	}
	if err != nil {
		return fmt.Errorf("rotate the secret: %w", err)
	}
	return nil
}
