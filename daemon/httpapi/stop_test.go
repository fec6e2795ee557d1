package httpapi_test

import (
	"fmt"
	"testing"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify"
)

// A leased message is cancelled with stop: its worker hears of that with its next extension, and settles it as it likes. One that
// nobody has is cancelled at once.
func TestCancelStops(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	const messages = "/v1/topics/mail/messages"
	for settle, gone := range map[string]bool{"nack?delay=1h&": true, "nack?dead=true&": true, "nack?attempt=keep&delay=1h&": true, "ack?": true, "ack?keep=1h&": false} {
		s.call("POST", messages+"?id=a", "x").is(201)
		claimed := read[api.Claimed](s.call("POST", "/v1/topics/mail/claim?lease=1h", "").is(200)).Messages[0]
		s.call("DELETE", messages+"/a", "").is(409).says("urn:bellhop:leased")
		s.call("DELETE", messages+"/a?stop=false", "").is(409).says("urn:bellhop:leased")
		s.call("DELETE", messages+"/a?stop=1&next=true", "").is(422).says(`"name":"stop"`)
		for range 2 {
			s.call("DELETE", messages+"/a?stop=true", "").is(200).says(`{"cancelled":false,"was":"leased","stopping":true}`)
		}
		stopped := read[api.Message](s.call("GET", messages+"/a", "").is(200).says(`"stopping":"20`))
		receipt := "receipt=" + fmt.Sprint(claimed.Receipt)
		s.call("POST", messages+"/a/extend?progress=1&"+receipt, "").is(409).says("urn:bellhop:stop")
		if again := read[api.Message](s.call("GET", messages+"/a", "").is(200)); !again.Until.Equal(*stopped.Until) || again.Progress != nil {
			t.Errorf("a refused extension changed %+v to %+v", stopped, again)
		}
		s.call("POST", messages+"/a/"+settle+receipt, "").is(204)
		if gone {
			s.call("GET", messages+"/a", "").is(404)
		} else {
			s.call("GET", messages+"/a", "").is(200).says(`"state":"done"`)
		}
		s.call("POST", messages+"/a/extend?"+receipt, "").is(409).says("urn:bellhop:lease-lost")
		s.call("DELETE", messages+"/a?stop=true", "").is(map[bool]int{true: 404, false: 200}[gone])
	}
	s.call("POST", messages+"?id=a&delay=1h", "x").is(201)
	if was := read[api.Cancelled](s.call("DELETE", messages+"/a?stop=true", "").is(200)); was != api.CancelledOf(notify.Scheduled) {
		t.Errorf("it is %+v", was)
	}
	s.call("DELETE", messages+"/a?stop=yes", "").is(422).says(`"name":"stop"`)
}
