package console

import (
	"crypto/rand"
	"net/http"
	"strings"
	"time"
)

const maxToken = 4096 // bytes

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
		c.fail(w, &visit{r: r}, "", &pageFault{
			Status: http.StatusServiceUnavailable, Title: "Only this browser is logged out", cause: err,
			Detail: "Redis, where the daemons note that a login ended, cannot be reached. A copy of the cookie, if there is one, is good for up to 12 hours, or until bellhop rotate ends all logins.",
		})
		return
	}
	lead(w, r, "login")
}
