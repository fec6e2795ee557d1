package calls

import (
	"bytes"
	"encoding/json"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/archive"
	"github.com/bellhopd/bellhop/notify"
)

// longBody is the length from which on Split puts a body apart: a multiple of 3, for base64.
const longBody = 6 << 10

// Split returns the JSON form of a message whose body is *body. A long body is left out
// of it, and returned beside it.
func Split[T any](body *[]byte, of func() T) (head T, long []byte) {
	if len(*body) > longBody {
		long, *body = *body, nil
	}
	return of(), long
}

// A Listing is an answer with messages. Each is made when it is written, so that the bodies
// of all are in memory once.
type Listing struct {
	N     int
	Bytes int64                               // of bodies and results
	One   func(i int) (head any, long []byte) // see Split
	Whole func(i int) any                     // the JSON form with the body
	End   any                                 // its members follow the messages
	Of    any                                 // []notify.Info or []archive.Row, for callers in this process
}

// Next returns the cursor with which a listing goes on, empty if this was all, and the shards that it lacks.
func (l Listing) Next() (cursor string, missing api.Missing) {
	switch end := l.End.(type) {
	case listEnd:
		return end.Cursor, missing
	case Looked:
		return end.Cursor, end.Missing
	}
	return "", missing
}

// A listEnd is what follows the messages of a page.
type listEnd struct {
	Cursor string `json:"cursor,omitempty"`
}

// messages returns a listing of messages.
func messages(all []notify.Info, end any) Listing {
	l := Listing{N: len(all), End: end, Of: all, Whole: func(i int) any { return api.MessageOf(all[i]) }}
	l.One = func(i int) (any, []byte) {
		one := all[i]
		return Split(&one.Body, func() any { return api.MessageOf(one) })
	}
	for i := range all {
		l.Bytes += int64(len(all[i].Body) + len(all[i].Result))
	}
	return l
}

// Rows returns a listing of rows of the archive.
func Rows(p archive.Page) Listing {
	l := Listing{N: len(p.Rows), End: listEnd{p.Cursor}, Of: p.Rows, Whole: func(i int) any { return archiveRowOf(p.Rows[i]) }}
	l.One = func(i int) (any, []byte) {
		one := p.Rows[i]
		return Split(&one.Body, func() any { return archiveRowOf(one) })
	}
	for i := range p.Rows {
		l.Bytes += int64(len(p.Rows[i].Body) + len(p.Rows[i].Result))
	}
	return l
}

// MarshalJSON returns {"messages":[...]} with the members of End.
func (l Listing) MarshalJSON() ([]byte, error) {
	all := make([]any, l.N)
	for i := range all {
		all[i] = l.Whole(i)
	}
	list, err := json.Marshal(struct {
		Messages []any `json:"messages"`
	}{all})
	if err != nil {
		return nil, err
	}
	end, err := json.Marshal(l.End)
	if end = bytes.TrimPrefix(end, []byte("{")); len(end) > len("}") {
		list[len(list)-1] = ','
		list = append(list, end...)
	}
	return list, err
}
