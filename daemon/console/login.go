package console

import (
	"crypto/hmac"
	"crypto/rand"
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
	maxToken   = 4096 // bytes
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
		c.withheld.log(err)
		refuse(http.StatusServiceUnavailable, "Redis cannot be reached, and cookies are signed with what it holds. Try again: the daemon's log says why.")
		return
	}
	l := login{v.Name, rand.Text(), time.Now().Add(cookieAge)}
	http.SetCookie(w, &http.Cookie{
		Name: cookieName, Value: l.sign(key, v), Expires: l.until, // of the path of all pages, as browsers see it
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil,
	})
	c.o.Logger.Info("logged in to the console", "token", v.Name)
	lead(w, r, next)
}

// logout ends the login, and takes the cookie away: a copy of it is refused from now on.
func (c *Console) logout(w http.ResponseWriter, r *http.Request) {
	v, err := c.viewer(r)
	if err == nil && v != nil && c.o.Open == nil {
		l, _, _ := loginOf(r)
		if err = c.secret.End(r.Context(), l.id, l.until); err == nil {
			c.o.Logger.Info("logged out of the console", "token", v.Name)
		}
	}
	http.SetCookie(w, &http.Cookie{Name: cookieName, MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil})
	if err != nil {
		c.fail(w, r, nil, &pageFault{
			Status: http.StatusServiceUnavailable, Title: "Only this browser is logged out", cause: err,
			Detail: "Redis, where the daemons note that a login ended, cannot be reached. A copy of the cookie, if there is one, is good for up to 12 hours, or until bellhop rotate ends all logins.",
		})
		return
	}
	lead(w, r, "login")
}
