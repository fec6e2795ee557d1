package archive

import (
	"encoding/base64"
	"encoding/json"
	"time"

	"github.com/bellhopd/bellhop/notify/store/fault"
)

// A place is where a page ended: the key of its last row, in the order of pages.
type place struct {
	Ended time.Time `json:"e"`
	Topic string    `json:"t"`
	ID    string    `json:"i"`
	Store string    `json:"s"`
	Entry string    `json:"n"`
}

// newestFirst is the order of pages.
const newestFirst = " ORDER BY ended DESC, topic DESC, id DESC, store DESC, entry DESC"

func placeOf(r *Row) place { return place{r.Ended.UTC(), r.Topic, r.ID, r.Store, r.Entry} }

// cursor returns the place as text for clients.
func (p place) cursor() string {
	return base64.RawURLEncoding.EncodeToString([]byte(jsonText(p)))
}

// parseCursor reads a cursor. The error is a notify.Fault.
func parseCursor(text string) (p place, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(raw, &p)
	}
	for _, part := range []string{p.Topic, p.ID, p.Store, p.Entry} {
		if err == nil {
			err = checkText("cursor", part, mostKey)
		}
	}
	if err != nil || p.Ended.IsZero() || p.Ended.Year() < 1 {
		return p, fault.New("cursor", "cursor %.100q: it is none of a page; begin without one", text)
	}
	return p, nil
}

// behind adds the condition that rows are behind the place. The first comparison is for
// the index.
func (p place) behind(s *selection) {
	s.add("ended <= ?", p.Ended)
	s.add("(ended, topic, id, store, entry) < (?, ?, ?, ?, ?)", p.Ended, p.Topic, p.ID, p.Store, p.Entry)
}
