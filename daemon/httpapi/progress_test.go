package httpapi_test

import (
	"fmt"
	"testing"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/httpapi"
)

// Who extends a lease may say how far the work is, and inspect tells that.
func TestProgress(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	const messages = "/v1/topics/mail/messages"
	s.call("POST", messages+"?id=a", "x").is(201)
	claimed := read[api.Claimed](s.call("POST", "/v1/topics/mail/claim", "").is(200)).Messages[0]
	extend := messages + "/a/extend?lease=1h&receipt=" + fmt.Sprint(claimed.Receipt)
	s.call("POST", extend+"&progress=0", "").is(200)
	s.call("GET", messages+"/a", "").is(200).says(`"progress":0`)
	s.call("POST", extend+"&progress=40&note=page%202%20of%205", "").is(200)
	s.call("POST", extend, "").is(200)
	got := s.call("GET", messages+"/a", "").is(200).says(`"progress":40,"note":"page 2 of 5"`)
	for query, says := range map[string]string{
		"progress=101": `"name":"progress"`, "progress=-1": `"name":"progress"`, "progress=1.5": `"name":"progress"`, "progress=": `"name":"progress"`,
		"note=a": "give progress, too", "progress=1&note=a%0Ab": "printable UTF-8",
	} {
		s.call("POST", extend+"&"+query, "").is(422).says(says)
	}
	if again := s.call("GET", messages+"/a", "").is(200); string(again.body) != string(got.body) {
		t.Errorf("wrong ones changed %s to %s", got.body, again.body)
	}
	s.call("POST", messages+"/a/nack?attempt=keep&delay=1h&receipt="+fmt.Sprint(claimed.Receipt), "").is(204)
	if again := read[api.Message](s.call("GET", messages+"/a", "").is(200)); again.Progress != nil || again.Note != "" {
		t.Errorf("put off it is %+v", again)
	}
}
