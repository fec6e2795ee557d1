package store

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	bridgeScript   = script("bridge")
	secretScript   = script("secret", promised)
	extendAsScript = script("extend_as")
)

// BridgeTo takes note that broadcasts were passed on to NATS up to a position. It
// returns up to where they were: that never goes back, and is 0 where none were. Errors: an ErrInvalid of a place
// that is foreign, see [Store.Check], or that of the connection.
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

const secretSize = 32 // bytes of a secret

// ErrNoSecret is the error of a secret that is foreign.
var ErrNoSecret = errors.New("it holds no secret of ours")

// Secret returns what the daemons of a store sign with. The first call makes it.
// Errors: an ErrNoSecret, see [Store.Check], an ErrUnreplicated, or that of the
// connection.
func (s Shard) Secret(ctx context.Context) (string, error) {
	random := make([]byte, secretSize)
	_, _ = rand.Read(random) // it never fails
	r, err := s.run(ctx, secretScript, hex.EncodeToString(random))
	if err != nil {
		return "", err
	}
	secret := r.text()
	if err := r.end(); err != nil {
		return "", err
	}
	if len(secret) < secretSize {
		return "", fmt.Errorf("%s is foreign: %w; delete it", s.store.keys.Secret(), ErrNoSecret)
	}
	return secret, nil
}

// extendedLonger is for how long the receipt of a lease that was extended is
// kept after its end: the carrier takes the message back within that time.
const extendedLonger = time.Minute

// ExtendAs gives a lease another length from now on, for a caller who knows only
// the receipt of the claim: that stays good. It does not shorten the lease, and
// reports whether that is lost.
func (s Shard) ExtendAs(ctx context.Context, claimed Lease, lease time.Duration) (lost bool, err error) {
	r, err := s.run(ctx, extendAsScript, claimed.Member, claimed.Receipt, lease.Milliseconds(), extendedLonger.Milliseconds())
	if err != nil {
		return false, err
	}
	lost = !r.flag()
	return lost, r.end()
}

// Extended returns the receipt that a lease has: that of the claim, unless
// ExtendAs gave it another. The error is that of the connection.
func (s Shard) Extended(ctx context.Context, claimed Lease) (receipt int64, err error) {
	kept, err := s.store.client.Get(ctx, s.store.keys.Extended(claimed.Member)).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return 0, s.store.explain(ctx, err)
	}
	was, is, _ := strings.Cut(kept, " ")
	receipt, err = strconv.ParseInt(is, 10, 64)
	if err != nil || was != strconv.FormatInt(claimed.Receipt, 10) {
		return claimed.Receipt, nil
	}
	return receipt, nil
}
