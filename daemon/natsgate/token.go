package natsgate

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/subscribers"
)

// A token names a claimed message and its lease, as the end of the subject that
// settles it. It is signed, so that only a client that got the message has one.
type token struct {
	topic, id string
	receipt   subscribers.Receipt // of the claim
	attempt   int
	lease     time.Duration // of the claim; +WPI gives it again
	due       time.Time     // to which a release brings it back
}

const signatureSize = 16 // bytes of an HMAC-SHA256

var errToken = fault.New("token", "settle token: it did not come with a message, or was changed; answer to the reply subject of the message as it is")

// seal returns the token as text: base64url of the receipt, the attempt, the lease in ms
// and the due time in Unix ms, each a varint, the member, and the signature.
func (t token) seal(secret []byte) string {
	raw := binary.AppendUvarint(nil, uint64(t.receipt))
	raw = binary.AppendUvarint(raw, uint64(t.attempt))
	raw = binary.AppendUvarint(raw, uint64(t.lease.Milliseconds()))
	raw = binary.AppendUvarint(raw, uint64(t.due.UnixMilli()))
	raw = append(raw, record.Member(t.topic, t.id)...)
	return base64.RawURLEncoding.EncodeToString(append(raw, sign(secret, raw)...))
}

// sign returns the signature of a token.
func sign(secret, raw []byte) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("settle:")) // so that nothing else that the secret may sign is a token
	mac.Write(raw)
	return mac.Sum(nil)[:signatureSize]
}

// unseal reads a token. The error is errToken if it was not sealed with this secret.
func unseal(text string, secret []byte) (token, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) < signatureSize {
		return token{}, errToken
	}
	raw, signature := raw[:len(raw)-signatureSize], raw[len(raw)-signatureSize:]
	if !hmac.Equal(signature, sign(secret, raw)) {
		return token{}, errToken
	}
	var numbers [4]uint64
	r := bytes.NewReader(raw)
	for i := range numbers {
		if numbers[i], err = binary.ReadUvarint(r); err != nil {
			return token{}, errToken
		}
	}
	t := token{receipt: subscribers.Receipt(numbers[0]), attempt: int(numbers[1]), lease: time.Duration(numbers[2]) * time.Millisecond, due: time.UnixMilli(int64(numbers[3]))}
	if t.topic, t.id, err = record.SplitMember(string(raw[len(raw)-r.Len():])); err != nil {
		return token{}, errToken
	}
	return t, nil
}

// tokenSecret returns the secret that tokens are sealed with.
func (g *Gate) tokenSecret(ctx context.Context) ([]byte, error) {
	secret, err := g.secret.Get(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the secret: %w", err)
	}
	return secret, nil
}

// unseal reads a token that a daemon of the store sealed.
func (g *Gate) unseal(ctx context.Context, text string) (t token, err error) {
	known, err := g.secret.Verify(ctx, func(secret []byte) bool {
		var fault error
		t, fault = unseal(text, secret)
		return fault == nil
	})
	switch {
	case err != nil:
		return token{}, fmt.Errorf("read the secret: %w", err)
	case !known:
		return token{}, errToken
	}
	return t, nil
}

// lastToken returns what stands behind the last dot of a subject.
func lastToken(subject string) string { return subject[strings.LastIndexByte(subject, '.')+1:] }
