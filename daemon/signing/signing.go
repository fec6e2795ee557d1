// Package signing keeps the secret of a store for the gateways of a daemon, which sign or
// seal with it what clients bring back: cookies of the console, settle tokens of NATS, and
// cursors of searches. All daemons have the same secret; when it is rotated, they find out
// by themselves.
package signing

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
)

// How old the secret may be that is known.
const (
	fresh = time.Second            // nearly always: no daemon signs, or accepts what was signed, with a former one for longer
	again = 100 * time.Millisecond // for what it did not sign, since another daemon may know a newer one; and after an error
)

// A Secret is the secret of a store. It is read when it is needed, never by itself, and is
// safe for concurrent use.
type Secret struct {
	store *notify.Store

	reading sync.Mutex // held while it is read
	known   atomic.Pointer[reading]
}

// A reading is what reading the secret led to. If that failed, text is what was known
// before; empty: nothing.
type reading struct {
	text  []byte
	ended store.Logouts
	err   error
	at    time.Time
}

// New returns the secret of a store. It reads nothing yet.
func New(s *notify.Store) *Secret {
	secret := &Secret{store: s}
	secret.known.Store(&reading{})
	return secret
}

// Get returns the secret, to sign with it. While it cannot be read it is the last one
// known. Errors: a store.ErrNoSecret, or that of the connection.
func (s *Secret) Get(ctx context.Context) ([]byte, error) {
	if known := s.known.Load(); known.text != nil {
		if time.Since(known.at) < fresh || !s.reading.TryLock() { // another reads it: Redis may take long
			return known.text, nil
		}
	} else {
		s.reading.Lock()
	}
	defer s.reading.Unlock()
	known := s.read(ctx, fresh)
	if known.text == nil {
		return nil, known.err
	}
	return known.text, nil
}

// Verify reports whether the secret signed something, as signed says. The secret is read
// again before that is denied. Errors, if it is not known: a store.ErrNoSecret, or that of
// the connection.
func (s *Secret) Verify(ctx context.Context, signed func(secret []byte) bool) (bool, error) {
	text, err := s.Get(ctx)
	if err != nil || signed(text) {
		return err == nil, err
	}
	s.reading.Lock()
	defer s.reading.Unlock()
	known := s.read(ctx, again)
	if known.text != nil && signed(known.text) {
		return true, nil
	}
	return false, known.err
}

// Ended reports whether a login ended that would be good until a time, as far as is known
// where what it signed was verified: by another daemon it may have ended up to a second ago.
func (s *Secret) Ended(login string, good time.Time) bool {
	return s.known.Load().ended.Has(login, good)
}

// End ends a login that would be good until a time: this daemon refuses it from now on, the
// others within a second or two. Errors are those of [store.Shard.Logout].
func (s *Secret) End(ctx context.Context, login string, good time.Time) error {
	if err := s.store.Home().Logout(ctx, login, good); err != nil {
		return err
	}
	s.reading.Lock()
	defer s.reading.Unlock()
	s.read(ctx, 0)
	return nil
}

// read returns what the secret is, read at most so long ago. The caller holds reading.
func (s *Secret) read(ctx context.Context, fresh time.Duration) *reading {
	known := s.known.Load()
	if known.err != nil {
		fresh = again
	}
	if time.Since(known.at) < fresh {
		return known
	}
	text, ended, err := s.store.Home().Secret(ctx)
	next := &reading{text: []byte(text), ended: ended, err: err, at: time.Now()}
	if err != nil {
		next.text, next.ended = known.text, known.ended
	}
	if errors.Is(err, store.ErrNoSecret) {
		next.text = nil
	}
	if ctx.Err() == nil { // else the caller gave up, and the next one reads
		s.known.Store(next)
	}
	return next
}

// Seal returns a text as one that nobody reads or changes without the secret, in
// base64url. use says what it is for, and separates it from what is sealed for others.
// Errors are those of Get.
func (s *Secret) Seal(ctx context.Context, use, text string) (string, error) {
	secret, err := s.Get(ctx)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(aead(secret, use).Seal(nil, nil, []byte(text), nil)), nil
}

// Open returns what was sealed for a use, and whether it was. Errors are those of Verify.
func (s *Secret) Open(ctx context.Context, use, sealed string) (text string, known bool, err error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(sealed)
	if err != nil {
		return "", false, nil
	}
	known, err = s.Verify(ctx, func(secret []byte) bool {
		plain, err := aead(secret, use).Open(nil, nil, raw, nil)
		text = string(plain)
		return err == nil
	})
	return text, known, err
}

// aead returns AES-256 in Galois/Counter Mode (NIST SP 800-38D), with random nonces and a
// key for one use, derived by HKDF (RFC 5869).
func aead(secret []byte, use string) cipher.AEAD {
	key, err := hkdf.Key(sha256.New, secret, nil, use, 32)
	if err != nil {
		panic(err) // 32 bytes are not too long
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // the key has a length of AES
	}
	sealing, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // AES has blocks of 16 bytes
	}
	return sealing
}
