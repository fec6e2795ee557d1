package natsgate_test

import (
	"testing"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A topic gets branches by its settings, and the subject of each call ends with one as with any topic.
func TestBranches(t *testing.T) {
	t.Parallel()
	conn, store, _ := open(t)
	carry(t, store)
	want := builtIn(topic)
	want.Branches, want.Own = "mail,points", []string{"branches"}
	wantSettings(t, request(t, conn, "bellhop.settings."+topic, `{"branches":"mail,points"}`), want)
	wantRefused(t, request(t, conn, "bellhop.settings."+topic+"@mail", `{"branches":"eu"}`), 422, topic+"@mail is a branch itself; set them on "+topic)
	if reply := request(t, conn, "bellhop.publish."+topic, "x", "Bellhop-Id", "a"); reply.Header.Get("Nats-Service-Error-Code") != "" {
		t.Fatalf("published: %s", reply.Data)
	}
	if m := request(t, conn, "bellhop.claim."+topic+"@mail", `{"wait":"30s"}`); m.Header.Get("ce-id") != "a" || string(m.Data) != "x" {
		t.Errorf("claimed %v %s", m.Header, m.Data)
	}
	wantRefused(t, request(t, conn, "bellhop.inspect."+topic, `{"id":"a"}`), 404, "copied into "+topic+"@mail, "+topic+"@points")
	if m := read[api.Message](t, request(t, conn, "bellhop.inspect."+topic+"@points", `{"id":"a"}`)); m.State != notify.Ready {
		t.Errorf("the other copy is %+v", m)
	}
	wantRefused(t, request(t, conn, "bellhop.publish."+topic+"@crm", "x", "Bellhop-Group", "g"), 422, "group g: over NATS no message of a branch joins a group of its topic; publish it to "+topic)
	storetest.Publish(t, store, notify.Message{Topic: topic + "@crm", ID: "b"})
	if m := request(t, conn, "bellhop.claim."+topic+"@crm", ""); m.Header.Get("ce-id") != "b" {
		t.Errorf("claimed %v %s", m.Header, m.Data)
	}
}
