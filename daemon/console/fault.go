package console

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify"
)

// A pageFault is why something could not be shown or done.
type pageFault struct {
	Status int
	Title  string
	Detail string
	Again  bool  // it passes: a page with a stream tries again by itself
	cause  error // which may name servers, users and rights of Redis
}

// Error returns the fault as one sentence.
func (f *pageFault) Error() string { return fmt.Sprintf("%s: %s", f.Title, f.Detail) }

var errNoPage = errors.New("there is no such page")

// faultOf describes an error.
func faultOf(err error) *pageFault {
	var known *pageFault
	var missing *notify.MissingError
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &missing):
		return &pageFault{Status: http.StatusOK, Title: missingTitle(missing.Shards), Detail: "What the others hold is shown.", Again: true, cause: missing.Err}
	case errors.Is(err, errNoPage):
		return &pageFault{Status: http.StatusNotFound, Title: "Not found", Detail: err.Error()}
	case errors.Is(err, notify.ErrInvalid):
		return &pageFault{Status: http.StatusUnprocessableEntity, Title: "That cannot be read", Detail: err.Error()}
	}
	const refused = "Redis or the daemon refused it."
	p := api.ProblemOf(err)
	title := strings.ToUpper(p.Title[:1]) + p.Title[1:]
	switch {
	case p.Status < http.StatusInternalServerError:
		return &pageFault{Status: p.Status, Title: title, Detail: err.Error()}
	case p.Status != http.StatusServiceUnavailable:
		return &pageFault{Status: http.StatusInternalServerError, Title: "That failed", Detail: refused, cause: err}
	case errors.Is(err, api.ErrOutbox):
		return &pageFault{Status: p.Status, Title: title, Detail: "Its database does not answer, or not as it should.", cause: err}
	case p.Title == api.Away:
		return &pageFault{Status: p.Status, Title: "Redis cannot be reached", Detail: "It does not answer, or not as it should.", Again: true, cause: err}
	default:
		return &pageFault{Status: p.Status, Title: title, Detail: refused, Again: true, cause: err}
	}
}

// missingTitle names shards that do not answer.
func missingTitle(shards []int) string {
	names := make([]string, len(shards))
	for i, n := range shards {
		names[i] = strconv.Itoa(n)
	}
	if len(names) == 1 {
		return "Shard " + names[0] + " is missing"
	}
	return "Shards " + strings.Join(names, ", ") + " are missing"
}
