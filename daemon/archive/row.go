package archive

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/asked"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// mostKey is the most bytes of a topic or an id: a foreign one may be longer than an index
// takes.
const mostKey = 512

// columns are the columns of rows that are inserted, one value a row.
type columns struct {
	ended, published, due      []*time.Time
	topic, id, store, entry    []string
	state, reason, contentType []string
	attempts, size             []int32
	history, headers, options  []string
	body, result               [][]byte
	fault                      []*string
}

// insertion inserts rows. One that is there already stays as it is.
const insertion = `INSERT INTO bellhop.messages (ended, topic, id, store, entry, state, reason, attempts, history,
		published, due, content_type, headers, options, body, size, result, fault)
	SELECT e.ended, e.topic, e.id, e.store, e.entry, e.state, e.reason, e.attempts, e.history::jsonb,
		e.published, e.due, e.content_type, e.headers::jsonb, e.options::jsonb, e.body, e.size, e.result, e.fault
	FROM unnest($1::timestamptz[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::integer[], $9::text[],
		$10::timestamptz[], $11::timestamptz[], $12::text[], $13::text[], $14::text[], $15::bytea[], $16::integer[], $17::bytea[], $18::text[])
		AS e (ended, topic, id, store, entry, state, reason, attempts, history,
		published, due, content_type, headers, options, body, size, result, fault)
	ON CONFLICT DO NOTHING`

// args are the arguments of an insertion.
func (c *columns) args() []any {
	return []any{
		c.ended, c.topic, c.id, c.store, c.entry, c.state, c.reason, c.attempts, c.history,
		c.published, c.due, c.contentType, c.headers, c.options, c.body, c.size, c.result, c.fault,
	}
}

// add adds a message that ended in a store. clean makes a text fit for the database.
func (c *columns) add(storeID string, e *store.Ending, clean func(string) string) {
	topic, id, err := record.SplitMember(e.Member)
	if err != nil {
		topic, id = "", e.Member
	}
	body, fault := e.Body, (*string)(nil)
	if e.Fault != nil {
		text := clean(e.Fault.Error())
		body, fault = []byte(e.Raw), &text
	}
	if body == nil {
		body = []byte{}
	}
	at := endOf(e)
	c.ended = append(c.ended, &at)
	c.topic = append(c.topic, cut(clean(topic)))
	c.id = append(c.id, cut(clean(id)))
	c.store = append(c.store, storeID)
	c.entry = append(c.entry, clean(e.Entry))
	c.state = append(c.state, clean(e.State))
	c.reason = append(c.reason, clean(e.Reason))
	c.attempts = append(c.attempts, int32(e.Attempts))
	c.history = append(c.history, historyText(e.History, clean))
	c.published = append(c.published, timeOrNone(e.Published))
	c.due = append(c.due, timeOrNone(e.FirstDue))
	c.contentType = append(c.contentType, clean(e.ContentType))
	c.headers = append(c.headers, headersText(e.Headers, clean))
	c.options = append(c.options, optionsText(&e.Record))
	c.body = append(c.body, body)
	c.size = append(c.size, int32(len(body)))
	c.result = append(c.result, e.Result)
	c.fault = append(c.fault, fault)
}

// endOf returns when a message ended: about when its entry was added, if that is foreign.
func endOf(e *store.Ending) time.Time {
	if !e.Ended.IsZero() {
		return e.Ended
	}
	added, _, _ := strings.Cut(e.Entry, "-")
	at, _ := strconv.ParseInt(added, 10, 64) // entries are numbered by time
	return time.UnixMilli(at)
}

// clean makes a text one that a database of UTF-8 takes, which has no zero byte.
func clean(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

// plain makes a text one that a database of any encoding takes.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if r == 0 || r > '~' {
			return '?'
		}
		return r
	}, text)
}

func cut(text string) string {
	if len(text) <= mostKey {
		return text
	}
	return strings.ToValidUTF8(text[:mostKey], "")
}

func timeOrNone(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// An attempt is a notify.Attempt as the column history has it.
type attempt struct {
	Ended  time.Time `json:"ended"`
	TookMS *int64    `json:"took_ms"` // null: unknown
	By     string    `json:"by"`      // empty: unknown
	Reason string    `json:"reason"`
}

func historyText(all []notify.Attempt, clean func(string) string) string {
	list := make([]attempt, len(all))
	for i, one := range all {
		list[i] = attempt{Ended: one.Ended.UTC(), By: clean(one.By), Reason: clean(one.Reason)}
		if ms := one.Took.Milliseconds(); one.Took >= 0 {
			list[i].TookMS = &ms
		}
	}
	return jsonText(list)
}

func historyOf(text []byte) (all []notify.Attempt, err error) {
	var list []attempt
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, err
	}
	for _, one := range list {
		a := notify.Attempt{Ended: one.Ended, Took: -1, By: one.By, Reason: one.Reason}
		if one.TookMS != nil {
			a.Took = ms(*one.TookMS)
		}
		all = append(all, a)
	}
	return all, nil
}

func headersText(headers map[string]string, clean func(string) string) string {
	kept := make(map[string]string, len(headers))
	for name, value := range headers {
		kept[clean(name)] = clean(value)
	}
	return jsonText(kept)
}

// options are what a publisher asked for, as the column options has it. The content type and
// the headers have columns of their own.
type options struct {
	asked.Options
	Broadcast bool `json:"broadcast,omitempty"`
}

func optionsText(r *notify.Record) string {
	o := options{asked.Of(*r), r.Broadcast}
	o.ContentType, o.Headers = "", nil
	o.Key, o.IfBusy = plain(o.Key), plain(o.IfBusy)
	o.Fail, o.Late = notify.Fail(plain(string(o.Fail))), notify.Late(plain(string(o.Late)))
	return jsonText(o)
}

// into sets what the column options has in a record that has its content type and headers.
func (o options) into(r *notify.Record) {
	o.ContentType, o.Headers = r.ContentType, r.Headers
	o.Into(r)
	r.Broadcast = o.Broadcast
}

// jsonText returns a value as JSON. It is of types that always can.
func jsonText(v any) string {
	text, _ := json.Marshal(v)
	return string(text)
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
