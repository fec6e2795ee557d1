package push

import (
	"cmp"
	"errors"
	"maps"
	"net"
	"net/url"
	"strings"
	"syscall"

	"github.com/bellhopd/bellhop/notify/budget"
	"github.com/bellhopd/bellhop/notify/store"
)

// What pushes have in flight is bounded in all, and of each endpoint: else one that hangs, or many, would take the files and the memory of
// everything else. Beyond that nothing is claimed.
const (
	defaultFiles = 256       // of Options.Files: a quarter of the 1,024 that a shell gives
	mostBytes    = 256 << 20 // of bodies
	mostOfOne    = 64 << 20  // of those to one endpoint
)

// budgets are what endpoints may have in flight.
type budgets struct {
	requests  int            // to one endpoint
	web, nats *budget.Budget // of all to URLs, and to NATS
	each      map[string]*budget.Budget
}

// newBudgets returns the budgets for so many requests to URLs.
func newBudgets(requests int) budgets {
	requests = max(requests, 1)
	all := budget.New(0, mostBytes)
	return budgets{max(requests/2, 1), all.Part(requests, 0), all.Part(0, 0), make(map[string]*budget.Budget)}
}

// of returns the budget of the endpoint of a push, which others may share.
func (r *budgets) of(push *store.Push) *budget.Budget {
	name := endpointOf(push)
	if r.each[name] == nil {
		r.each[name] = r.web.Part(r.requests, mostOfOne)
		if push.IsNATS() {
			r.each[name] = r.nats.Part(0, mostOfOne)
		}
	}
	return r.each[name]
}

// keep forgets the budgets of endpoints to which no push leads.
func (r *budgets) keep(pushes []store.Push) {
	used := make(map[string]bool, len(pushes))
	for i := range pushes {
		used[endpointOf(&pushes[i])] = true
	}
	maps.DeleteFunc(r.each, func(name string, _ *budget.Budget) bool { return !used[name] })
}

// endpointOf returns the scheme, the host and the port of a push to a URL; of one to NATS its own name.
func endpointOf(push *store.Push) string {
	u, err := url.Parse(push.URL)
	if push.IsNATS() || err != nil { // see store.Push
		return toNATS + push.Name
	}
	port := map[string]string{"http": "80", "https": "443"}[u.Scheme]
	return u.Scheme + "://" + strings.ToLower(u.Hostname()) + ":" + cmp.Or(u.Port(), port)
}

const toNATS = "nats:"

// isShort reports whether a request failed since this process, or its machine, has no file left. What looks up names tells it in words.
func isShort(err error) bool {
	var lookup *net.DNSError
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) ||
		errors.As(err, &lookup) && strings.Contains(lookup.Err, syscall.EMFILE.Error())
}
