package httpapi_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// mayCall lists the rights that permit each call; admin permits all. No right: any token will do.
var mayCall = map[string][]string{
	"publish": {"publish"}, "broadcast": {"publish"}, "publishMany": {"publish"}, "reschedule": {"publish"}, "cancel": {"publish"},
	"inspect": {"publish", "consume"}, "list": {"publish", "consume"},
	"claim": {"consume"}, "claimAny": {"consume"}, "ack": {"consume"}, "nack": {"consume"}, "extend": {"consume"}, "ackMany": {"consume"}, "listDead": {"consume"}, "listKeys": {"publish", "consume"}, "listGroups": {"publish", "consume"}, "getGroup": {"publish", "consume"}, "forgetGroup": {"admin"},
	"listen": {"listen"},
	"find":   {"publish", "consume"}, "act": {"admin"},
	"pause": {"admin"}, "resume": {"admin"},
	"listTopics": {}, "countTopic": {}, "forecast": {}, "history": {"admin"}, "carrier": {}, "settings": {}, "changeSettings": {"admin"},
	"listSchedules": {"schedule"}, "listAllSchedules": {"schedule"}, "showSchedule": {"schedule"}, "nextOfSchedule": {"schedule"}, "putSchedule": {"schedule"}, "applySchedules": {"schedule"}, "deleteSchedule": {"schedule"}, "pauseSchedule": {"schedule"}, "resumeSchedule": {"schedule"}, "runSchedule": {"schedule"}, "backfillSchedule": {"schedule"},
	"listPushes": {"push"}, "showPush": {"push"}, "putPush": {"push"}, "deletePush": {"push"}, "pausePush": {"push"}, "resumePush": {"push"}, "testPush": {"push"},
	"rotateSecret": {"admin"}, "upgrade": {"admin"}, "clock": {"admin"}, "advance": {"admin"}, "workers": {"metrics"}, "listeners": {}, "receivers": {"publish", "listen"}, "searchArchive": {"archive", "archive-bodies"}, "showArchived": {"archive", "archive-bodies"},
	"requeueArchived": {"archive or archive-bodies, and with publish"}, "eraseArchived": {"admin"}, "pruneArchive": {"admin"},
	"getOutbox": {"metrics"}, "listRefused": {"metrics"}, "retryRefused": {"admin"}, "purgeRefused": {"admin"},
}

var everyRight = []string{"publish", "consume", "listen", "metrics", "archive", "archive-bodies", "push", "schedule", "admin"}

// tokenOf returns the token of a name.
func tokenOf(name string) string { return "token-of-" + name + "-0123456789" }

// Every call is tried with every right, on a topic that the token permits and on another one.
func TestWhoMayCallWhat(t *testing.T) {
	t.Parallel()
	var all strings.Builder
	for _, right := range everyRight {
		for name, topics := range map[string]string{"here": "order.>,prices.gold", "elsewhere": "payments.*"} {
			fmt.Fprintf(&all, "%s.%s %s %s %s\n", right, name, tokenOf(right+name), right, topics)
		}
	}
	var log storetest.Log
	s := start(t, httpapi.Options{TokensFile: file(t, "tokens", all.String()), Logger: log.Logger(slog.LevelDebug)})
	for _, op := range s.spec.ops {
		wanted, known := mayCall[op.OperationID]
		if !known {
			t.Errorf("which rights permit %s? add them to the table", op.OperationID)
		}
		s.admits(op, "", 401)
		s.admits(op, tokenOf("nobody"), 401)
		for _, right := range everyRight {
			may := right == "admin" || len(wanted) == 0 || slices.Contains(wanted, right)
			status := 403
			if may && !slices.Contains([]string{"pruneArchive", "listRefused", "retryRefused", "purgeRefused", "history", "rotateSecret", "upgrade", "clock", "advance"}, op.OperationID) { // which need all topics
				status = 200
			}
			s.admits(op, tokenOf(right+"here"), status)
			if strings.Contains(op.path, "{topic}") || op.OperationID == "claimAny" {
				status = 403
			}
			s.admits(op, tokenOf(right+"elsewhere"), status)
		}
		if said := strings.Contains(op.Description, strings.Join(wanted, " or ")); !said {
			t.Errorf("%s: the description does not name %q: %s", op.OperationID, wanted, op.Description)
		}
	}
	if strings.Contains(log.String(), "token-of-") {
		t.Errorf("a token was logged: %s", log.String())
	}
}

// admits sends a valid request with a token; 200 stands for every answer but a refusal.
func (s *server) admits(op specOp, token string, status int) {
	s.t.Helper()
	path, query, _ := wrongCase{op: op}.address()
	body := ""
	if op.RequestBody != nil {
		body = `[{"id":"a","receipt":1}]`
	}
	r, err := http.NewRequestWithContext(s.t.Context(), op.method, s.url+path+"?"+query, strings.NewReader(body))
	storetest.Must(s.t, err)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := s.Do(r)
	storetest.Must(s.t, err)
	resp.Body.Close()
	if refused := resp.StatusCode == 401 || resp.StatusCode == 403; refused != (status != 200) || refused && resp.StatusCode != status {
		s.t.Errorf("%s with %q answers %d, want %d", op.OperationID, token, resp.StatusCode, status)
	}
	if challenge := resp.Header.Get("WWW-Authenticate"); (challenge == `Bearer realm="bellhop"`) != (resp.StatusCode == 401) {
		s.t.Errorf("%s answers %d with the challenge %q", op.OperationID, resp.StatusCode, challenge)
	}
}

func TestLinesAndTopicsOfAToken(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{TokensFile: file(t, "tokens", "a "+tokenOf("a")+" publish order.*\nb "+tokenOf("b")+" admin >\n")})
	body := `{"topic":"order.a","body":"x"}` + "\n" + `{"topic":"order.a.b","body":"x"}` + "\n" + `{"topic":"payments","body":"x","mode":"broadcast"}` + "\n" + `{"topic":"order.*","body":"x"}`
	var kinds []string
	for _, r := range lines[result](s.call("POST", "/v1/messages", body, "Authorization: Bearer "+tokenOf("a")).is(200)) {
		if kinds = append(kinds, ""); r.Error != nil {
			kinds[len(kinds)-1] = r.Error.Type
		}
	}
	if diff := cmp.Diff([]string{"", "urn:bellhop:forbidden", "urn:bellhop:forbidden", "urn:bellhop:invalid"}, kinds); diff != "" {
		t.Error(diff)
	}
	s.call("POST", "/v1/topics/payments/messages", "x", "Authorization: Bearer "+tokenOf("b")).is(201)
	for token, want := range map[string]int{"a": 1, "b": 2} {
		if got := read[calls.Topics](s.call("GET", "/v1/topics", "", "Authorization: Bearer "+tokenOf(token)).is(200)); len(got.Topics) != want {
			t.Errorf("to %s it shows %+v", token, got)
		}
	}
}

// Deaths need a token that names them: all topics are those of users.
func TestTokensForDeaths(t *testing.T) {
	t.Parallel()
	tokens := ""
	for name, topics := range map[string]string{"all": ">", "any": "*,*.*", "deaths": "$dead.>", "one": "order.paid,$dead.order.paid"} {
		tokens += name + " " + tokenOf(name) + " admin,listen " + topics + "\n"
	}
	listens := func(s *server, token, pattern string) int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), "GET", s.url+"/v1/topics/"+pattern+"/broadcasts", nil)
		storetest.Must(t, err)
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+tokenOf(token))
		}
		resp, err := s.Do(r)
		storetest.Must(t, err)
		resp.Body.Close()
		return resp.StatusCode
	}
	s := start(t, httpapi.Options{TokensFile: file(t, "tokens", tokens)})
	for _, test := range []struct {
		token, pattern string
		status         int
	}{
		{"all", "$dead.order.paid", 403},
		{"all", "$dead.>", 403},
		{"all", ">", 200},
		{"any", "$dead.order", 403},
		{"deaths", "$dead.order.paid", 200},
		{"deaths", "$dead.>", 200},
		{"deaths", "order.paid", 403},
		{"deaths", ">", 403},
		{"one", "$dead.order.paid", 200},
		{"one", "$dead.order.*", 403},
		{"one", "$other.order", 422},
	} {
		if got := listens(s, test.token, test.pattern); got != test.status {
			t.Errorf("%s listens to %s: %d, want %d", test.token, test.pattern, got, test.status)
		}
	}
	s = start(t, httpapi.Options{})
	if got := listens(s, "", "$dead.>"); got != 200 {
		t.Errorf("where there are no tokens: %d", got)
	}
	for _, path := range []string{"messages", "broadcasts", "claim"} {
		s.call("POST", "/v1/topics/$dead.order/"+path, "x").is(422).says("names that begin with $ are the system's")
	}
	s.call("PATCH", "/v1/topics/$dead.order/settings", `{"attempts":5}`).is(422).says("names that begin with $ are the system's")
	s.call("GET", "/v1/topics?cursor=$dead.order", "").is(200)
}

func TestAuthorization(t *testing.T) {
	t.Parallel()
	hashed := tokenOf("hashed")
	sum := sha256.Sum256([]byte(hashed))
	s := start(t, httpapi.Options{TokensFile: file(t, "tokens", "# tokens\n\na "+tokenOf("a")+" admin >\r\n  b sha256:"+hex.EncodeToString(sum[:])+"  admin\t>")})
	for header, status := range map[string]int{
		"":                         401,
		" ":                        401,
		"Bearer":                   401,
		"Bearer ":                  401,
		"Bearer  ":                 401,
		"Basic " + tokenOf("a"):    401,
		tokenOf("a"):               401,
		"Bearer " + tokenOf("a"):   200,
		"bearer " + tokenOf("a"):   200,
		"BEARER   " + tokenOf("a"): 200,
		"Bearer " + hashed:         200,
		"Bearer sha256:" + hex.EncodeToString(sum[:]):          401,
		"Bearer " + tokenOf("a") + "x":                         401,
		"Bearer " + tokenOf("a")[1:]:                           401,
		"Bearer " + tokenOf("a") + "," + hashed:                401,
		"Bearer " + tokenOf("a") + " " + hashed:                401,
		"Bearer \xff":                                          401,
		"Bearer " + strings.Repeat("x", 10_000):                401,
		"Bearer " + strings.ToUpper(tokenOf("a")):              401,
		"Bearer\t" + tokenOf("a"):                              401,
		"Bearer " + tokenOf("a") + strings.Repeat("\u00a0", 1): 401,
	} {
		a := s.call("GET", "/v1/carrier", "", "Authorization: "+header)
		if a.status != status {
			t.Errorf("%.80q answers %d, want %d", header, a.status, status)
		}
		if strings.Contains(string(a.body), "token-of") {
			t.Errorf("the answer has the token: %s", a.body)
		}
	}
	s.call("GET", "/v1/carrier", "", "Authorization: Bearer "+tokenOf("a"), "Authorization: Bearer "+tokenOf("a")).is(401)
	s.call("GET", "/v1/openapi.json", "").is(401)
	s.call("GET", "/v1/openapi.json", "", "Authorization: Bearer "+hashed).is(200)
	s.call("GET", "/healthz", "").is(200)
	s.call("GET", "/v1/carrier?access_token="+tokenOf("a"), "").is(401)
}

func TestFaultsOfATokensFile(t *testing.T) {
	t.Parallel()
	const secret = "this-is-a-secret-0123456789"
	right := "a " + secret + " publish >\n"
	for text, want := range map[string]string{
		"":                           "there is none",
		"# only a comment\n\n":       "there is none",
		"a\n":                        "line 1: invalid line: 1 words",
		"a " + secret + " publish\n": "line 1: invalid line: 3 words",
		right + "b " + secret + " publish > # comment\n":        "line 2: invalid line: 6 words",
		"a short publish >\n":                                   "line 1: invalid token of a: it is shorter than 16 bytes",
		"a sixteen,bytes,and,more publish >\n":                  "line 1: invalid token of a: use letters",
		"a sha256:" + secret + " publish >\n":                   "line 1: invalid token of a: write the hash of the token after sha256:",
		"a sha256:" + strings.Repeat("a", 62) + " publish >\n":  "line 1: invalid token of a: write the hash of the token after sha256:",
		"a " + secret + " read >\n":                             "line 1: invalid rights of a",
		"a " + secret + " Publish >\n":                          "line 1: invalid rights of a",
		"a " + secret + " publish, >\n":                         "line 1: invalid rights of a",
		"a " + secret + " publish ,\n":                          "line 1: invalid topics of a, number 1",
		"a " + secret + " publish a,b..c\n":                     "line 1: invalid topics of a, number 2",
		"a " + secret + " publish >.a\n":                        "line 1: invalid topics of a, number 1",
		right + "# between\n" + right:                           "line 3: invalid name: line 1 has the same",
		right + "b " + secret + " publish >\n":                  "line 2: invalid token of b: line 1 has the same",
		strings.Repeat("a", 33) + " " + secret + " publish >\n": "line 1: invalid name: use up to 32",
		"a\xff " + secret + " publish >\n":                      "line 1: invalid name",
		"a/b " + secret + " publish >\n":                        "line 1: invalid name",
		// The words in another order.
		strings.Repeat("ab", 32) + " shop-with-a-long-name publish >\n":    "line 1: invalid name",
		"a long-enough-to-be-one " + secret + " >\n":                       "line 1: invalid rights of a",
		"a long-enough-to-be-one publish " + secret + "+/=\n":              "line 1: invalid topics of a",
		"a-secret-0123456789 shop publish >\n":                             "line 1: invalid token: it is shorter than 16 bytes",
		"a-secret-0123456789 " + secret + " read >\n":                      "line 1: invalid rights: use",
		"a-secret-0123456789 " + secret + " publish .\n":                   "line 1: invalid topics, number 1",
		"abababababababab0123456789abcdef shop-of-a-long-name publish >\n": "line 1: invalid name",
		strings.Repeat("a-secret-0123456789 "+secret+" publish >\n", 2):    "line 2: invalid name: line 1",
		strings.Repeat("x\n", 100_000):                                     "the lines after line 20 were not read",
		strings.Repeat("x", 100_000) + "\n":                                "line 1: invalid line: 1 words",
		"x\ny\n\nz\n":                                                      "line 4: invalid line",
	} {
		err := httpapi.CheckTokens(file(t, "tokens", text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: got %.300v, want %q", text, err, want)
			continue
		}
		if said := err.Error(); strings.Contains(said, "secret-0123") || strings.Contains(said, "abab") || strings.Contains(said, "xxxx") || strings.Contains(said, "line 21") {
			t.Errorf("%.60q: the error has the token: %.300s", text, said)
		}
	}
	if err := httpapi.CheckTokens("/no/such/file"); err == nil {
		t.Error("a missing file is accepted")
	}
	storetest.Should(t, httpapi.CheckTokens(""))
}

func TestReloadOfTokens(t *testing.T) {
	t.Parallel()
	line := func(name string) string { return name + " " + tokenOf(name) + " consume >\n" }
	name := file(t, "tokens", line("kept")+line("gone")+line("less"))
	s := start(t, httpapi.Options{TokensFile: name})
	polls := make(map[string]chan answer)
	for _, name := range []string{"kept", "gone", "less"} {
		done := make(chan answer, 1)
		polls[name] = done
		go func() { done <- s.call("POST", topicPath+"/claim?wait=5m", "", "Authorization: Bearer "+tokenOf(name)) }()
	}
	storetest.Eventually(t, "three polls wait", func() bool { return s.gate.Stats().Polls == 3 })
	for _, faulty := range []string{"", "x\n", line("kept") + "x\n"} {
		write(t, name, faulty)
		if err := s.gate.Reload(); err == nil {
			t.Errorf("%q is accepted", faulty)
		}
		s.call("GET", "/v1/carrier", "", "Authorization: Bearer "+tokenOf("gone")).is(200)
	}
	write(t, name, line("new")+line("kept")+"less "+tokenOf("less")+" listen >\n")
	var both sync.WaitGroup
	for range 2 { // concurrent reloads do no harm
		both.Go(func() {
			storetest.Should(t, s.gate.Reload())
		})
	}
	both.Wait()
	storetest.Receive(t, "the poll of a removed token ends", polls["gone"]).is(401)
	storetest.Receive(t, "the poll of a token with fewer rights ends", polls["less"]).is(401)
	if n := s.gate.Stats().Polls; n != 1 {
		t.Errorf("%d polls wait", n)
	}
	s.call("GET", "/v1/carrier", "", "Authorization: Bearer "+tokenOf("gone")).is(401)
	s.call("POST", topicPath+"/claim", "", "Authorization: Bearer "+tokenOf("less")).is(403)
	s.call("POST", topicPath+"/claim", "", "Authorization: Bearer "+tokenOf("new")).is(200)
	ctx, stop := t.Context(), make(chan struct{})
	go func() {
		defer close(stop)
		s.gate.Quiesce(ctx)
	}()
	storetest.Receive(t, "the poll of the other ends with the gateway", polls["kept"]).is(200)
	storetest.Receive(t, "it is closed", stop)
}
