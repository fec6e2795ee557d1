package console

import (
	"fmt"
	"net/http"

	"github.com/bellhopd/bellhop/notify/find"
)

// A progress is how far a search is.
type progress struct{ Looked, Of int64 }

// Percent returns how far it is, from 0 to 100.
func (p progress) Percent() int64 {
	if p.Of <= 0 {
		return 100
	}
	return min(100, 100*p.Looked/p.Of)
}

// ask admits a question. The caller calls done when it is answered. The error is a
// notify.Fault, or a fault for too many searches of bodies.
func (c *Console) ask(v *visit, text string) (q find.Query, done func(), err error) {
	if q, err = find.Parse(text); err != nil {
		return q, nil, err
	}
	done, admitted := v.Searches.Begin(c.o.Logger, q, "token", v.Name)
	if !admitted {
		return q, nil, &pageFault{Status: http.StatusTooManyRequests, Title: "Too many searches", Detail: fmt.Sprintf("%d searches of bodies are under way with your token. Wait until one ends.", find.MaxOfBodies)}
	}
	return q, done, nil
}
