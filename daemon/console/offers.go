package console

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/bellhopd/bellhop/daemon/cache"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify/find"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
)

const (
	topicsOffered = Root + "find/topics" // the address of topics that begin with a text
	mostOffered   = 10                   // topics
	mostBegun     = 100                  // names that each shard reads for them: a viewer may not see all
)

// An offer is a text that completes a question, and what it stands for.
type offer struct {
	Text string `json:"text"`
	What string `json:"what,omitempty"`
}

// allOffers returns all that is offered for a question but topics, as JSON: under an empty name its terms, and
// under the beginning of a term the values of that.
var allOffers = sync.OnceValue(func() string {
	all := make(map[string][]offer)
	for _, term := range find.Terms() {
		begin, _, _ := strings.Cut(term.Begin, "NAME") // which the reader fills in
		all[""] = append(all[""], offer{begin, term.Asks})
	}
	for _, s := range states {
		all["state:"] = append(all["state:"], offer{Text: s.String()})
	}
	times := []offer{{"now", ""}, {"-5m", "five minutes ago"}, {"-1h", "an hour ago"}, {"+1h", "in an hour"}, {"+1d", "in a day"}}
	all["due<"], all["due>"] = times, times
	data, _ := json.Marshal(all) // of texts alone it cannot fail
	return string(data)
})

// offerTopics answers with the first topics that begin with a text and that the viewer sees, as JSON.
func (c *Console) offerTopics(w http.ResponseWriter, r *http.Request) {
	viewer, err := c.viewer(r)
	var names []string
	switch {
	case err != nil:
	case viewer == nil:
		http.Error(w, "log in", http.StatusUnauthorized)
		return
	default:
		if err = calls.Named("find").Admits(viewer.Client); err == nil {
			names, err = c.topicsBegun(r.Context(), &visit{Viewer: viewer, r: r})
		}
	}
	if err != nil && !store.IsPartial(err) {
		f := c.faultFor(viewer, err)
		http.Error(w, f.Error(), f.Status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(names) // an error means that the client is gone
}

// topicsBegun returns the first topics that begin with what a visit asks for, by name. It reads so many names of
// each shard in one call, however many there are.
func (c *Console) topicsBegun(ctx context.Context, v *visit) ([]string, error) {
	begin := v.query("begin")
	if record.CheckTopic(begin+"x") != nil {
		return []string{}, nil // no topic begins like this
	}
	in, err := v.scope("")
	if err != nil {
		return nil, err
	}
	ranges := namesBegun(begin, in)
	if len(ranges) == 0 {
		return []string{}, nil
	}
	return c.caches.begun.Get(ctx, in.key+"\n"+begin, cache.Keep{Age: reordered}, func(ctx context.Context) ([]string, error) {
		pages, err := store.Gather(ctx, c.store, func(ctx context.Context, shard store.Shard) ([]string, error) {
			return shard.TopicNames(ctx, mostBegun, ranges)
		})
		names := slices.Compact(slices.Sorted(slices.Values(slices.Concat(pages...))))
		names = slices.DeleteFunc(names, func(topic string) bool { return !in.has(topic) })
		return append([]string{}, names[:min(len(names), mostOffered)]...), err
	})
}

// namesBegun returns ranges of the names in a scope that begin with a text.
func namesBegun(begin string, in scope) (some []record.Names) {
	if len(in.patterns) == 0 {
		return nil
	}
	for _, names := range record.NamesOf(in.patterns) {
		names = record.Names{From: max(names.From, begin), To: min(names.To, begin+"\x7f")} // behind all that a name may have
		if names.From < names.To {
			some = append(some, names)
		}
	}
	return some
}
