package httpapi_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/redisserver"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// everyCall sends a valid request of every operation that needs Redis, and returns the answers.
func (s *server) everyCall() (all []answer) {
	s.t.Helper()
	for _, op := range s.spec.ops {
		if op.Tags[0] == "archive" || op.Tags[0] == "outbox" || op.path == "/v1/clock" { // which the daemon has not
			continue
		}
		path, query, _ := wrongCase{op: op}.address()
		all = append(all, s.call(op.method, path+"?"+query, bodyOf(op)))
	}
	return all
}

// bodyOf returns a valid body for an operation.
func bodyOf(op specOp) string {
	bodies := map[string]string{
		"ackMany": `[{"id":"a","receipt":1}]`, "publishMany": `{"topic":"orders","body":"x"}` + "\nx", "changeSettings": `{"attempts":5}`, "putSchedule": `{"every":"1h","body":"x"}`, "applySchedules": `{"schedules":[{"name":"a","every":"1h","body":"x"}]}`, "putPush": `{"topics":["a"],"url":"https://a.example"}`, "ack": "",
	}
	if op.RequestBody == nil {
		return ""
	}
	if body, known := bodies[op.OperationID]; known {
		return body
	}
	return "x"
}

func TestRedisAway(t *testing.T) {
	t.Parallel()
	redis := storetest.Server(t)
	s := serveOn(t, storetest.Unhurried(storetest.At(t, redis.URL(), "test")), httpapi.Options{})
	s.call("POST", messages+"?id=a", "x").is(201)
	redis.Kill()
	for _, a := range s.everyCall() {
		a.is(503).kind("unavailable")
	}
	s.call("POST", messages+"/a/nack?receipt=1", "").is(503).kind("unavailable")
	s.call("GET", "/readyz", "").is(503)
	s.call("GET", "/healthz", "").is(200)
	storetest.Restart(t, redis)
	storetest.Eventually(t, "it recovers by itself", func() bool { return s.call("POST", messages, "x").status == 201 })
	storetest.Eventually(t, "it is ready again", func() bool { return s.call("GET", "/readyz", "").status == 200 })
}

func TestRedisOutOfMemory(t *testing.T) {
	t.Parallel()
	redis := storetest.Server(t, "--maxmemory-policy", "noeviction")
	s := serveOn(t, storetest.Unhurried(storetest.At(t, redis.URL(), "test")), httpapi.Options{})
	s.call("POST", messages+"?id=a", "x").is(201)
	client := s.store.Client()
	storetest.Must(t, client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	same := s.unchanged()
	s.call("POST", messages+"?id=b", "x").is(503).kind("full").says("OOM")
	s.call("POST", topicPath+"/broadcasts", "x").is(503)
	s.call("POST", "/v1/messages", `{"topic":"orders","body":"x"}`+"\n"+`{"topic":"orders","body":"x"}`).is(503)
	same()
	d := s.claim("orders") // calls that free memory still work
	s.call("POST", settle(d, "ack", ""), "").is(204)
	storetest.Must(t, client.ConfigSet(t.Context(), "maxmemory", "0").Err())
	s.call("POST", messages+"?id=b", "x").is(201)
}

// While the share of Redis's memory for messages is used up, publishes are refused, and nothing else is.
func TestRedisFull(t *testing.T) {
	t.Parallel()
	redis := storetest.Server(t, "--maxmemory", "50mb", "--maxmemory-policy", "noeviction")
	db := storetest.Unhurried(storetest.With(t, notify.Config{URL: redis.URL(), Prefix: "test", MemoryShare: 1}))
	all := storetest.Unhurried(storetest.At(t, redis.URL(), "test")) // has the default share
	storetest.Publish(t, all, notify.Message{Topic: "orders", ID: "a", Body: []byte("x")})
	s := serveOn(t, db, httpapi.Options{})
	same := s.unchanged()
	for _, a := range []answer{
		s.call("POST", messages, "x"),
		s.call("POST", topicPath+"/broadcasts", "x"),
		s.call("POST", "/v1/messages", `{"topic":"orders","body":"x"}`+"\n"+`{"topic":"mail","body":"x"}`),
	} {
		if p := a.is(503).kind("full").says("1% are for messages").problem(); p.Title != "redis is full" || a.header.Get("Retry-After") == "" {
			t.Errorf("got %+v, %v", p, a.header)
		}
	}
	same()
	s.call("PATCH", messages+"/a?delay=0s", "").is(200)
	s.call("POST", settle(s.claim("orders"), "ack", ""), "").is(204)
	storetest.Eventually(t, "it is ready", func() bool { return s.call("GET", "/readyz", "").status == 200 })
}

// A Redis that evicts keys is not used.
func TestRedisUnfit(t *testing.T) {
	t.Parallel()
	redis := storetest.Server(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	s := serveOn(t, storetest.Unhurried(storetest.At(t, redis.URL(), "test")), httpapi.Options{})
	for _, a := range s.everyCall() {
		switch a.call {
		case "GET /v1/carrier", "GET /v1/history", "GET /v1/listeners": // there is nothing
			a.is(200)
		default:
			a.is(503).kind("unavailable")
		}
	}
}

func TestRedisReadOnly(t *testing.T) {
	t.Parallel()
	redis := storetest.Server(t)
	s := serveOn(t, storetest.Following(storetest.At(t, redis.URL(), "test")), httpapi.Options{})
	s.call("POST", messages+"?id=a", "x").is(201)
	s.registered()
	storetest.Must(t, redis.Follow(t.Context(), "127.0.0.1", "1"))
	same := s.unchangedIn(storetest.Unhurried(storetest.At(t, redis.URL(), "test"))) // refusals cut the connections of the server's store
	s.call("POST", messages, "x").is(503).kind("unavailable")
	s.call("DELETE", messages+"/a", "").is(503)
	s.call("POST", topicPath+"/claim", "").is(503)
	same()
	storetest.Must(t, redis.Follow(t.Context(), "NO", "ONE"))
	storetest.Eventually(t, "messages are published and claimed", func() bool { // what was refused before may close a connection once more
		if s.call("POST", messages, "x").status != 201 {
			return false
		}
		got := s.call("POST", topicPath+"/claim", "")
		return got.status == 200 && len(read[api.Claimed](got).Messages) > 0
	})
}

// Who may make calls is told why the daemon is not ready, and what to do.
func TestReadyzNamesTheRemedy(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		breaks func(*testing.T, *redisserver.Server)
		says   []string
	}{
		"it is gone": {func(_ *testing.T, s *redisserver.Server) { s.Kill() }, []string{"connection refused", "start Redis there"}},
		"it hangs": {func(t *testing.T, s *redisserver.Server) {
			storetest.Must(t, s.Signal(syscall.SIGSTOP))
		}, []string{"Redis accepts connections and does not answer"}},
		"it became a replica": {func(t *testing.T, s *redisserver.Server) {
			storetest.Must(t, s.Follow(t.Context(), "127.0.0.1", "1"))
		}, []string{"READONLY", "set BELLHOP_REDIS_URL to its master"}},
		"it has another password": {lock, []string{"NOAUTH", "check BELLHOP_REDIS_URL, BELLHOP_REDIS_USERNAME and BELLHOP_REDIS_PASSWORD_FILE"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis := storetest.Server(t)
			s := serveOn(t, storetest.Unhurried(storetest.At(t, redis.URL(), "test")), httpapi.Options{})
			storetest.Eventually(t, "it is ready", func() bool { return s.call("GET", "/readyz", "").status == 200 })
			test.breaks(t, redis)
			var last answer
			if !storetest.Poll(time.Second, storetest.Deadline, func() bool {
				last = s.call("GET", "/readyz", "")
				return !slices.ContainsFunc(test.says, func(text string) bool { return !strings.Contains(string(last.body), text) })
			}) {
				t.Errorf("it answers %d: %s", last.status, last.body)
			}
		})
	}
}

// lock gives a server a password, and ends all connections without it.
func lock(t *testing.T, s *redisserver.Server) {
	t.Helper()
	admin := redis.NewClient(&redis.Options{Addr: s.Addr()})
	defer admin.Close()
	err := admin.ConfigSet(t.Context(), "requirepass", "new").Err()
	for _, kind := range []string{"normal", "pubsub"} {
		err = errors.Join(err, admin.ClientKillByFilter(t.Context(), "TYPE", kind).Err())
	}
	storetest.Must(t, err)
}

// Missing rights of the daemon's user at Redis are no fault of the client.
func TestRedisRefusesTheUser(t *testing.T) {
	t.Parallel()
	poor := storetest.NewUser(t)
	poor.ACL(t, "-hset", "-zadd")
	admin, prefix := poor.Admin, poor.Admin.Keys().Prefix()
	storetest.Beat(t, admin)
	s := serveOn(t, poor.Store, httpapi.Options{})
	same := s.unchangedIn(admin)
	for _, a := range s.everyCall() {
		switch a.call {
		case "GET /v1/carrier", "GET /v1/history", "GET /v1/listeners": // there is nothing
			continue
		}
		p := a.is(503).kind("unavailable").says("its user may not call").says("HSET").says(reach.Rights(prefix, storetest.Shards())).problem()
		if p.Title != "redis refuses the daemon" || a.header.Get("Retry-After") == "" || strings.Contains(string(a.body), ":secret") {
			t.Errorf("got %+v, %v", p, a.header)
		}
	}
	s.call("GET", "/readyz", "").is(503)
	s.call("GET", "/healthz", "").is(200)
	same()
	poor.ACL(t, "+@all")
	storetest.Eventually(t, "it recovers by itself", func() bool { return s.call("POST", messages+"?id=a", "x").status == 201 })
	d := s.claim("orders")
	poor.ACL(t, "-hdel")
	s.call("POST", settle(d, "ack", ""), "").is(503).kind("unavailable").says(reach.Rights(prefix, storetest.Shards())) // the ack needs the missing right
	same = s.unchangedIn(admin)
	s.call("POST", settle(d, "ack", ""), "").is(503).kind("unavailable").says("its user may not call HDEL")
	s.call("POST", messages, "x").is(503)
	same()
}

// A request that another client's long script delays is answered with try again.
func TestRedisBusy(t *testing.T) {
	t.Parallel()
	redis := storetest.Server(t, "--busy-reply-threshold", "10")
	s := serveOn(t, storetest.Unhurried(storetest.At(t, redis.URL(), "test")), httpapi.Options{})
	s.call("POST", messages+"?id=a", "x").is(201)
	client := storetest.Unhurried(storetest.At(t, redis.URL(), "other")).Client()
	ended := make(chan error, 1)
	go func() { ended <- client.Eval(t.Context(), "while true do end", nil).Err() }()
	storetest.Eventually(t, "it is busy", func() bool { return strings.HasPrefix(fmt.Sprint(s.store.Client().Ping(t.Context()).Err()), "BUSY") })
	s.call("POST", messages, "x").is(503).kind("unavailable")
	s.call("POST", topicPath+"/claim", "").is(503).kind("unavailable")
	s.call("DELETE", messages+"/a", "").is(503).kind("unavailable")
	storetest.Must(t, s.store.Client().ScriptKill(t.Context()).Err())
	if err := storetest.Receive(t, "the script ends", ended); err == nil {
		t.Error("the script was not ended")
	}
	s.claim("orders")
}
