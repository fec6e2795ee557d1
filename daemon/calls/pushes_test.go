package calls_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/daemon/push"
	"github.com/bellhopd/bellhop/notify/storetest"
)

const (
	crm    = `{"name":"crm"}`
	secret = "whsec_NfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	toCRM  = `{"topics":["order.paid"],"url":"https://crm.example","secrets":["` + secret + `"]}`
)

// pushing returns a caller of a daemon that pushes to public addresses.
func pushing(t *testing.T) caller {
	t.Helper()
	c := newCaller(t, storetest.Open(t))
	var err error
	if c.service.Pusher, err = push.New(c.service.Store, push.Options{Allow: "public"}); err != nil {
		t.Fatal(err)
	}
	return c
}

// What is wrong with a push is said at once, without its secrets, and changes nothing.
func TestWrongPush(t *testing.T) {
	t.Parallel()
	c, ok := pushing(t), toCRM
	c.says("putPush", crm, ok, `"secrets":1`)
	before := c.do("listPushes", "", "")
	for body, texts := range map[string][]string{
		`{}`:                                     {"topics: there are none", "url: it is missing", "https://HOST/PATH", "nats:SUBJECT"},
		`{"topics":["mail"],"to":"jobs.mail"}`:   {"to", "write nats:SUBJECT"},
		`{"topics":["mail"],"to":"nats:jobs.*"}`: {"to", "write nats:SUBJECT"},
		`{"topics":["mail"],"to":"nats:$JS.API.STREAM.PURGE.A"}`:           {"to", "write nats:SUBJECT"},
		`{"topics":["mail"],"to":"nats:>"}`:                                {"to", "write nats:SUBJECT"},
		`{"topics":["mail"],"to":"nats:_INBOX.a"}`:                         {"to", "answers go there"},
		`{"topics":["mail"],"to":"nats:` + strings.Repeat("a", 256) + `"}`: {"to", "at most 260 are allowed"},
		`{"topics":["a","b"],"broadcasts":true,"url":"https://a.example"}`: {"topics: there are 2", "prices.*"},
		`{"topics":["a.*.>b"],"broadcasts":true,"to":"nats:jobs"}`:         {"topics", "use tokens of letters", "PREFIX.broadcast.TOPIC"},
		strings.Replace(ok, `order.paid`, `order.>.a`, 1):                  {"topics", "order.>.a", "use tokens of letters", "> at the end"},
		strings.Replace(ok, `order.paid`, `$dead.*`, 1):                    {"topics", "names that begin with $ are the system's"},
		strings.Replace(ok, `"order.paid"`, `"a.*","a.*","b c"`, 1):        {"topics", `a.*\" is named twice`, `b c`},
		strings.Replace(ok, `"topics"`, `"to":"nats:jobs","topics"`, 1):    {"to", "neither url nor secrets"},
		strings.Replace(ok, `"order.paid"`, `"a b","a b"`, 1):              {"topics"},
		strings.Replace(ok, "https:", "http:", 1):                          {"http is not encrypted", "BELLHOP_PUSH_ALLOW"},
		strings.Replace(ok, "https:", "ftp:", 1):                           {"url", "https://HOST/PATH"},
		strings.Replace(ok, "crm.example", "me:pw@crm.example", 1):         {"it names a user"},
		strings.Replace(ok, "crm.example", "crm.example/#a", 1):            {"what follows #"},
		strings.Replace(ok, "crm.example", "crm.example/a b", 1):           {"a blank", "%20"},
		strings.Replace(ok, "crm.example", "crm.example/?a=ä", 1):          {"not ASCII in its query"},
		strings.Replace(ok, "crm.example", "crm.example:65536", 1):         {"no port is 65536", "1 to 65535"},
		strings.Replace(ok, "crm.example", "crm.example:0", 1):             {"no port is 0"},
		strings.Replace(ok, "crm.example", "127.0.0.1", 1):                 {"127.0.0.1 is not public"},
		strings.Replace(ok, "crm.example", "[::ffff:10.0.0.1]", 1):         {"10.0.0.1 is not public"},
		strings.Replace(ok, secret, "whsec_c2hvcnQ=", 1):                   {"Standard Webhooks", "24 to 64", "urandom"},
		strings.Replace(ok, secret, secret+`","a","b`, 1):                  {"secrets: there are 3"},
		strings.Replace(ok, `"topics"`, `"in_flight":1001,"topics"`, 1):    {`in_flight \"1001\"`, "1 to 1000"},
		strings.Replace(ok, `"topics"`, `"in_flight":0,"topics"`, 1):       {`in_flight \"0\"`, "1 to 1000"},
		strings.Replace(ok, `"topics"`, `"timeout":"25h","topics"`, 1):     {"timeout 25h", "24h"},
		strings.Replace(ok, `"topics"`, `"timeout":"0s","topics"`, 1):      {"timeout 0s", "24h"},
		strings.Replace(ok, `"topics"`, `"timeout":"soon","topics"`, 1):    {"timeout"},
		strings.Replace(ok, `"topics"`, `"retries":3,"topics"`, 1):         {`the field \"retries\" is unknown`},
		strings.Replace(ok, `["`+secret+`"]`, `"`+secret+`"`, 1):           {`secrets is a JSON string, and should be a list of strings, such as [\"whsec_`},
		strings.Replace(ok, `["order.paid"]`, `{"a":1}`, 1):                {`topics is a JSON object, and should be a list of strings, such as [\"order.paid\"]`},
		strings.Replace(ok, `"order.paid"`, `"order.paid",""`, 1):          {"topics"},
		`{"topics":[1],"url":2,"broadcasts":"yes","in_flight":"8"}`:        {"topics is a JSON array", "url is a JSON number", `broadcasts is a JSON string, and should be true or false, such as true`, `in_flight is a JSON string, and should be a whole number, such as 8`},
		strings.Repeat(" ", 10):                                            {"push"},
	} {
		c.says("putPush", crm, body, append(texts, "urn:bellhop:invalid")...)
		if got := c.do("putPush", crm, body); strings.Contains(got, secret) || strings.Contains(got, "me:pw") {
			t.Errorf("a secret is told: %s", got)
		}
	}
	const mail = `{"name":"mail"}`
	for _, other := range []string{"order.*", ">", "*.paid", `mail","*.>`} {
		c.says("putPush", mail, strings.Replace(ok, "order.paid", other, 1), "the push crm has the topic order.paid, and a message could match that and ")
	}
	c.says("putPush", mail, ok, "the push crm has the topic order.paid")
	for _, call := range []string{"putPush", "showPush", "deletePush"} {
		c.says(call, `{"name":"a b"}`, ok, `"name":"name"`, `invalid name \"a b\": use tokens of letters`)
	}
	c.says("listeners", `{"cursor":"a b"}`, "", `"name":"cursor"`, "use the cursor of the page before")
	if after := c.do("listPushes", "", ""); after != before {
		t.Errorf("there are %s, and there were %s", after, before)
	}
	c.says("putPush", crm, strings.Replace(ok, "order.paid", "order.*", 1), `"topics":["order.*"]`)
	c.says("putPush", mail, ok, "the push crm has the topic order.*, and a message could match that and order.paid, but goes to one push; name topics that do not overlap")
	c.says("putPush", mail, strings.Replace(ok, "order.paid", "order.*", 1), "the push crm has the topic order.*, and each message goes to one push")
}

// A client needs all topics of a push: of the one that is put, and of the one that is there.
func TestPushRights(t *testing.T) {
	t.Parallel()
	all := pushing(t)
	orders, mail := all.of("order.*"), all.of("mail.*")
	mail.says("putPush", crm, toCRM, "may not use the topic order.paid")
	orders.says("putPush", crm, toCRM, `"name":"crm"`)
	orders.says("listPushes", "", "", `"name":"crm"`)
	mail.says("listPushes", "", "", `{"pushes":[]}`)
	mail.says("putPush", crm, strings.Replace(toCRM, "order.paid", "mail.in", 1), "may not use all topics of the push crm")
	orders.says("putPush", crm, strings.Replace(toCRM, "order.paid", "order.>", 1), "may not use the topic order.>")
	orders.says("putPush", crm, strings.Replace(toCRM, "order.paid", "order.*", 1), `"topics":["order.*"]`)
	for _, call := range []string{"showPush", "deletePush", "pausePush", "resumePush", "testPush"} {
		mail.says(call, crm, "", "urn:bellhop:forbidden")
	}
}

// One client does not take the places of all others.
func TestPushesOfAClient(t *testing.T) {
	t.Parallel()
	all := pushing(t)
	orders := all.of("order.*")
	put := func(c caller, name, topic, says string) {
		t.Helper()
		c.says("putPush", fmt.Sprintf(`{"name":%q}`, name), strings.Replace(toCRM, "order.paid", topic, 1), says)
	}
	for i := range 100 {
		put(orders, fmt.Sprint("p", i), fmt.Sprint("order.", i), `"name":"p`)
	}
	put(orders, "more", "order.more", "name: 100 pushes have topics of this token")
	put(orders, "p7", "order.seven", `"topics":["order.seven"]`)
	put(all.of("mail.*"), "mail", "mail.in", `"name":"mail"`)
	put(all.of(">"), "more", "order.more", `"name":"more"`)
}
