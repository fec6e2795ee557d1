package console

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	cookieName = "bellhop-login"
	cookieAge  = 12 * time.Hour
)

// A login is what a cookie says of itself: NAME.ID.UNTIL.SIGNATURE.
type login struct {
	name  string // of the token; it may have dots
	id    string // random
	until time.Time
}

// sign returns the value of the cookie of a login. The token is in the signature, so that the cookie ends with the token, in all daemons. The key
// is the secret of the store, so that each daemon knows the cookies of the others.
func (l login) sign(key []byte, v *Viewer) string {
	text := l.name + "." + l.id + "." + strconv.FormatInt(l.until.Unix(), 10)
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("console\n" + text + "\n" + v.Fingerprint))
	return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// loginOf returns what the cookie of a request says, true or not.
func loginOf(r *http.Request) (l login, cookie string, ok bool) {
	c, err := r.Cookie(cookieName)
	if err != nil {
		return login{}, "", false
	}
	fields := strings.Split(c.Value, ".")
	n := len(fields) - 3
	if n < 1 {
		return login{}, "", false
	}
	seconds, err := strconv.ParseInt(fields[n+1], 10, 64)
	return login{strings.Join(fields[:n], "."), fields[n], time.Unix(seconds, 0)}, c.Value, err == nil
}

// viewer returns whoever sent a request: nil if its cookie is missing, old, of a login that
// was ended or a token that was taken away, or signed with a secret that was rotated since. The error is that of the connection.
func (c *Console) viewer(r *http.Request) (*Viewer, error) {
	if c.o.Open != nil {
		return c.o.Open, nil
	}
	l, cookie, ok := loginOf(r)
	if !ok || !time.Now().Before(l.until) {
		return nil, nil
	}
	v := c.o.Named(l.name)
	if v == nil {
		return nil, nil
	}
	signed, err := c.secret.Verify(r.Context(), func(key []byte) bool { return hmac.Equal([]byte(cookie), []byte(l.sign(key, v))) })
	if !signed || c.secret.Ended(l.id, l.until) {
		return nil, err
	}
	c.o.Known(r)
	return v, nil
}
