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
	cookieName = "bellhop"
	cookieAge  = 12 * time.Hour
	maxToken   = 4096 // bytes
)

// sign returns the value of the cookie of a viewer until a time: NAME.UNTIL.SIGNATURE. The
// token is in the signature, so that the cookie ends with the token, in all daemons. The key
// is the secret of the store, so that each daemon knows the cookies of the others.
func sign(key []byte, v *Viewer, until time.Time) string {
	text := v.Name + "." + strconv.FormatInt(until.Unix(), 10)
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("console\n" + text + "\n" + v.Fingerprint))
	return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// viewer returns whoever sent a request: nil if its cookie is missing, old, of a token
// that was taken away, or signed with a secret that was rotated since. The error is that of the connection.
func (c *Console) viewer(r *http.Request) (*Viewer, error) {
	if c.o.Open != nil {
		return c.o.Open, nil
	}
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return nil, nil
	}
	fields := strings.Split(cookie.Value, ".") // a name may have dots, too
	if len(fields) < 3 {
		return nil, nil
	}
	seconds, err := strconv.ParseInt(fields[len(fields)-2], 10, 64)
	until := time.Unix(seconds, 0)
	v := c.o.Named(strings.Join(fields[:len(fields)-2], "."))
	if err != nil || v == nil || !time.Now().Before(until) {
		return nil, nil
	}
	signed, err := c.secret.Verify(r.Context(), func(key []byte) bool { return hmac.Equal([]byte(cookie.Value), []byte(sign(key, v, until))) })
	if !signed {
		return nil, err
	}
	c.o.Known(r)
	return v, nil
}

// loginPage asks for a token.
func (c *Console) loginPage(w http.ResponseWriter, r *http.Request) {
	c.render(w, r, http.StatusOK, &frame{Title: "Log in", Template: "login", Data: loginForm{Next: nextOf(r.URL.Query().Get("next"))}})
}

// A loginForm is what the page for a token shows.
type loginForm struct {
	Next  string
	Fault string
}

// login gives a cookie for a token.
func (c *Console) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxUnknown)
	next := nextOf(r.FormValue("next"))
	refuse := func(status int, fault string) {
		c.render(w, r, status, &frame{Title: "Log in", Template: "login", Data: loginForm{Next: next, Fault: fault}})
	}
	token := strings.TrimSpace(r.FormValue("token"))
	if token == "" || len(token) > maxToken {
		refuse(http.StatusUnprocessableEntity, "Token: it is missing; paste one of the lines of the tokens file.")
		return
	}
	v := c.o.Login(r, token)
	if v == nil {
		refuse(http.StatusUnauthorized, "Token: no client has it; look for it in the tokens file of this daemon.")
		return
	}
	key, err := c.secret.Get(r.Context())
	if err != nil {
		c.withhold(err)
		refuse(http.StatusServiceUnavailable, "Redis cannot be reached, and cookies are signed with what it holds. Try again: the daemon's log says why.")
		return
	}
	until := time.Now().Add(cookieAge)
	http.SetCookie(w, &http.Cookie{
		Name: cookieName, Value: sign(key, v, until), Expires: until, // of the path of all pages, as browsers see it
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil,
	})
	c.o.Logger.Info("logged in to the console", "token", v.Name)
	lead(w, r, next)
}

// logout takes the cookie away.
func (c *Console) logout(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, &http.Cookie{Name: cookieName, MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil})
	lead(w, r, "login")
}
