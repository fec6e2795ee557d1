package api

import (
	"net/url"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fields"
)

// Push is a push: the messages of its topics are sent to a URL or to NATS.
type Push struct {
	Name       string            `json:"name" example:"crm"`
	Topics     []string          `json:"topics" nullable:"false" example:"[\"order.paid\"]"`
	URL        string            `json:"url,omitempty" example:"https://crm.example/hook" doc:"without what follows ?, which may be a secret"`
	To         string            `json:"to,omitempty" example:"nats:crm.paid" doc:"in place of url: nats:SUBJECT"`
	Secrets    int               `json:"secrets" example:"1" doc:"how many sign each request; they are never shown"`
	Broadcasts bool              `json:"broadcasts,omitempty" doc:"it sends the broadcasts of one topic or pattern, in place of messages"`
	InFlight   int               `json:"in_flight" example:"32" doc:"most messages of a topic that each daemon has handed on, and that are not settled"`
	TimeoutMs  int64             `json:"timeout_ms" example:"10000" doc:"for an answer"`
	Unsent     bool              `json:"unsent,omitempty" doc:"no daemon runs that sends pushes to URLs, or to NATS where to is given; messages wait"`
	Leased     *int64            `json:"leased,omitempty" nullable:"false" example:"3" doc:"how many messages of its topics, or broadcasts of its listener, are leased: to the daemons, and to any other worker; missing: in a list, while a shard that has some is away, or if very many topics match"`
	Unheard    []string          `json:"unheard,omitempty" nullable:"false" example:"[\"crm.paid\"]" doc:"subjects of NATS on which nobody listened when the daemon that answers sent a message there last; messages wait"`
	Stored     map[string]string `json:"stored,omitempty" nullable:"false" example:"{\"crm.paid\":\"ORDERS\"}" doc:"a subject on which nobody listened, and the stream of NATS that stores each try, and whose answer is passed over"`
	Paused     string            `json:"paused,omitempty" doc:"why it is paused; missing: it is not"`
	Failing    *PushFailure      `json:"failing,omitempty" nullable:"false" doc:"the endpoint failed several times in a row, and is asked by one request at a time; missing: it did not"`
	Dropped    []string          `json:"dropped,omitempty" nullable:"false" example:"[\"prices.gold\"]" doc:"in the answer to a put, topics of which broadcasts were still to be sent that the new pattern does not match: these are dropped"`
	Closed     *PushClosure      `json:"closed,omitempty" nullable:"false" doc:"the endpoint wants no request for some time, as its Retry-After says; messages wait; missing: it does"`
}

// PushClosure says until when the endpoint of a push wants no request.
type PushClosure struct {
	Until  time.Time `json:"until"`
	Answer string    `json:"answer" example:"HTTP 429 Too Many Requests"`
}

// PushFailure says since when the endpoint of a push fails.
type PushFailure struct {
	Since  time.Time `json:"since"`
	Answer string    `json:"answer" example:"HTTP 500 Internal Server Error" doc:"the last answer, or why there was none"`
	Next   time.Time `json:"next,omitzero" doc:"when the daemon that asked last asks again, if there is a message then; others ask in their turn; missing: unknown"`
}

// Pushes are all pushes that a client may see.
type Pushes struct {
	Pushes []Push `json:"pushes" nullable:"false"`
}

// PushOf returns a push in its JSON form.
func PushOf(p store.Push) Push {
	shown := Push{URL: ShownURL(p.URL), Secrets: len(p.Secrets), TimeoutMs: Ms(p.Timeout)}
	fields.Fill(&shown, &p, "URL", "Secrets", "Failing", "Closed")
	if p.Failing != nil {
		shown.Failing = &PushFailure{Since: p.Failing.Since.UTC(), Answer: p.Failing.Answer, Next: p.Failing.Next}
	}
	if p.Closed != nil {
		shown.Closed = &PushClosure{Until: p.Closed.Until, Answer: p.Closed.Answer}
	}
	return shown
}

// ShownURL returns a URL without its query, which may be a secret.
func ShownURL(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.RawQuery == "" {
		return text
	}
	u.RawQuery = ""
	return u.String() + "?…"
}

// PushTest is what the endpoint of a push answered to a test.
type PushTest struct {
	OK     bool   `json:"ok" doc:"it would acknowledge a message"`
	Answer string `json:"answer" example:"HTTP 200 OK" doc:"or why there is none"`
	TookMs int64  `json:"took_ms"`
}
