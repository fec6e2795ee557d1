package console

import (
	"cmp"
	"net/http"
	"strings"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// A visit is one request of a viewer.
type visit struct {
	*Viewer
	Refused *pageFault    // why the form was
	wrong   []string      // fields of it that were
	Test    *api.PushTest // of the push in the form
	r       *http.Request
	instead string // address of the page to which an act leads, in place of that which its form names; empty: there
	made    string // address of the page of what an act published; empty: it published nothing, or nothing that the viewer may see
}

// makes notes what an act published.
func (v *visit) makes(topic, id string, broadcast bool) {
	switch {
	case broadcast && v.Can("receivers"):
		v.made = receiversPath(topic, id)
	case !broadcast && v.Reads():
		v.made = messagePath(topic, id)
	}
}

// Written returns a field of the form as it was sent; empty: there was none.
func (v *visit) Written(name string) string {
	return strings.ReplaceAll(v.r.PostForm.Get(name), "\r\n", "\n")
}

// query returns a parameter of the address.
func (v *visit) query(name string) string { return v.r.URL.Query().Get(name) }

// with returns the address of the page with other parameters: pairs of name and value. An
// empty value takes the parameter away.
func (v *visit) with(pairs ...string) string {
	q := v.r.URL.Query()
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			q.Del(pairs[i])
		} else {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	return address(v.r, q)
}

// Link returns the address of the page with other parameters, without those of a stream.
func (v *visit) Link(pairs ...string) string {
	return v.with(append(pairs, "edition", "")...)
}

// reserve waits for memory, unless zero bytes are needed, and returns what frees it. The error is a fault with a title and a remedy.
func (v *visit) reserve(bytes int64, title, remedy string) (free func(), err error) {
	if bytes == 0 {
		return func() {}, nil
	}
	free, err = v.Reserve(v.r, bytes)
	if err != nil {
		err = &pageFault{Status: http.StatusServiceUnavailable, Title: title, Detail: "Other requests of your token take its memory, or the daemon stops. " + remedy}
	}
	return free, err
}

// topicOf returns the topic of an address, which the viewer must see.
func topicOf(v *visit) (string, error) {
	topic := v.r.PathValue("topic")
	return topic, cmp.Or(record.CheckAnyTopic(topic), v.AllowTopic(topic))
}
