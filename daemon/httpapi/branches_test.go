package httpapi_test

import (
	"testing"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/httpapi"
)

// A topic gets branches by its settings, and each is a topic of all calls.
func TestBranches(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	carry(t, s.store)
	want := builtIn("orders")
	want.Branches, want.BranchTTLMs, want.Own = "mail,points", 604_800_000, []string{"branches", "branch_ttl"}
	wantSettings(t, s.call("PATCH", settingsPath, `{"branches":"mail,points","branch_ttl":"7d"}`), want)
	s.call("PATCH", settingsPath, `{"branches":"mail.eu"}`).is(422).says(`"branches"`)
	s.call("PATCH", settingsPath, `{"rate":"1/s"}`).is(422).says("set those on each branch, such as orders@NAME")
	s.call("PATCH", commonPath, `{"branches":"mail"}`).is(422).says(`"branches"`)
	s.call("POST", topicPath+"@mail/broadcasts", "x").is(422).says("broadcast: a branch has none; send it to orders")

	s.call("POST", topicPath+"/messages?id=a", "x").is(201)
	got := read[api.Claimed](s.call("POST", topicPath+"@mail/claim?wait=30s", "").is(200)).Messages
	if len(got) != 1 || got[0].ID != "a" || got[0].Topic != "orders@mail" {
		t.Errorf("claimed %+v", got)
	}
	s.call("GET", topicPath+"/messages/a", "").is(404).says("no such message; what was ready was copied into orders@mail, orders@points")
	s.call("GET", topicPath+"@points/messages/a", "").is(200).says(`"state":"ready"`)
	s.call("POST", topicPath+"@points/messages?id=b&group=g", "x").is(201)
	s.call("POST", topicPath+"/messages?id=c&after_group=orders@mail:g", "x").is(422).says("a branch has no groups of its own, its messages are in those of orders; write orders:GROUP")
	s.call("GET", topicPath+"/groups/g", "").is(200).says(`"topic":"orders@points","id":"b","state":"ready"`)
	s.call("GET", topicPath+"@points/groups", "").is(422).says("topic orders@points: a branch has no groups of its own, its messages are in those of orders; name that")
	s.call("POST", "/v1/claim?topics=orders@points,orders@mail&max=2", "").is(200).says(`"id":"b"`)
	s.call("DELETE", topicPath+"@mail/messages/a?stop=true", "").is(200).says(`"stopping":true`)
}
