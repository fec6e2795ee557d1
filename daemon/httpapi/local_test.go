package httpapi_test

import (
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/httpapi"
)

// A due time of a zone's wall clock is resolved, and told: of one message, of one of many, and of a broadcast. A spread is told, too.
func TestLocalDue(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	const local = "?due=2099-03-29T02:30&zone=Europe/Berlin"
	s.call("POST", messages+local+"&id=a", "x").is(201).says(`"due":"2099-03-29T01:00:00Z"`)
	s.call("POST", topicPath+"/broadcasts"+local, "x").is(201).says(`"due":"2099-03-29T01:00:00Z"`)
	s.call("POST", "/v1/messages", `{"topic":"orders","due":"2099-10-25T02:30","zone":"Europe/Berlin","body":"x"}`).is(200).says(`"due":"2099-10-25T00:30:00Z"`)
	p := read[api.Publication](s.call("POST", messages+local+"&id=b&spread=1h", "x").is(201))
	if late := p.Due.Sub(time.Date(2099, 3, 29, 1, 0, 0, 0, time.UTC)); late <= 0 || late > time.Hour {
		t.Errorf("it is %v later", late)
	}
	s.call("PATCH", messages+"/a?due=2099-07-01T08:00&zone=Europe/Berlin", "").is(200).says(`"due":"2099-07-01T06:00:00Z"`)
	s.call("PATCH", messages+"/a?due=2099-07-01T08:00", "").is(422).says("it has no offset")
	s.call("PATCH", messages+"/a?delay=1m&zone=Europe/Berlin", "").is(422).says("it is given beside delay")
}
