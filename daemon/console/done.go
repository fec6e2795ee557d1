package console

import (
	"net/http"
	"strings"
	"time"
)

const (
	doneCookie = "bellhop-done"
	doneAge    = time.Minute
	mostDone   = 500 // bytes
)

// setDone has the next page say what an act did, with the address of the page of what it published, if there is one. It is in a cookie that nobody else can make: an
// address could say what nobody did. Its path is that of all pages before a proxy, too.
func (c *Console) setDone(w http.ResponseWriter, r *http.Request, did, made string) {
	text, err := c.secret.Seal(r.Context(), doneCookie, did[:min(len(did), mostDone)]+"\n"+made)
	if err != nil {
		return // it is done, and the next page shows the rest
	}
	http.SetCookie(w, &http.Cookie{Name: doneCookie, Value: text, Path: "/", MaxAge: int(doneAge.Seconds()), HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil})
}

// takeDone returns what the act before the page did, and made, which is said once.
func (c *Console) takeDone(w http.ResponseWriter, r *http.Request) (did, made string) {
	cookie, err := r.Cookie(doneCookie)
	if err != nil {
		return "", ""
	}
	http.SetCookie(w, &http.Cookie{Name: doneCookie, Path: "/", MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil})
	text, _, _ := c.secret.Open(r.Context(), doneCookie, cookie.Value) // empty unless it is known
	did, made, _ = strings.Cut(text, "\n")
	return strings.ToValidUTF8(did, ""), made
}
