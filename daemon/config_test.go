package daemon_test

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon"
	"github.com/bellhopd/bellhop/daemon/natsgate"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/script"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// set sets the environment to these settings alone.
func set(t *testing.T, vars map[string]string) {
	t.Helper()
	for _, variable := range os.Environ() {
		name, value, _ := strings.Cut(variable, "=")
		if strings.HasPrefix(name, "BELLHOP_") {
			t.Setenv(name, value) // so that it is restored
			os.Unsetenv(name)
		}
	}
	for name, value := range vars {
		t.Setenv(name, value)
	}
}

func TestDefaults(t *testing.T) {
	set(t, nil)
	got, err := daemon.Load(os.Environ())
	storetest.Must(t, err)
	want := daemon.Config{
		RedisURL: reach.DefaultURL, Prefix: script.DefaultPrefix, MemoryShare: reach.DefaultMemoryShare, Listen: daemon.DefaultListen, Console: true, MetricsTopics: 100,
		CarrierLease: carrier.DefaultLease, CarrierBatch: carrier.DefaultBatch,
		BroadcastKeep: daemon.Keep{Count: carrier.DefaultKeepCount, Age: carrier.DefaultKeepAge},
		DeadKeep:      daemon.Keep{Count: carrier.DefaultKeepDeadCount, Age: carrier.DefaultKeepDeadAge}, DoneKeep: daemon.Keep{Count: carrier.DefaultKeepDoneCount, Age: carrier.DefaultKeepDoneAge}, TopicKeep: carrier.DefaultKeepTopics, NatsPrefix: natsgate.DefaultPrefix,
		MaxBody: notify.DefaultMaxBody, ShutdownTimeout: 20 * time.Second,
		LogLevel: slog.LevelInfo, LogFormat: "text",
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, s := range got.Settings(os.Environ()) {
		if s.Value != s.Default || s.Source != "default" || s.Doc == "" {
			t.Errorf("setting %+v: its value should be the default, and documented", s)
		}
	}
}

func TestSettings(t *testing.T) {
	password := filepath.Join(t.TempDir(), "password")
	storetest.Must(t, os.WriteFile(password, []byte("from-the-file\n"), 0o600))
	creds, ca := natsFiles(t)
	tokens, cert, key := httpFiles(t)
	vars := map[string]string{
		"BELLHOP_LISTEN": "0.0.0.0:443", "BELLHOP_LISTEN_WITHOUT_TOKENS": "true", "BELLHOP_TOKENS_FILE": tokens, "BELLHOP_TLS_CERT_FILE": cert, "BELLHOP_TLS_KEY_FILE": key,
		"BELLHOP_CORS_ORIGINS": "https://a.example,http://localhost:3000", "BELLHOP_METRICS_TOPICS": "7", "BELLHOP_METRICS_NAMES": "orders,payments.card", "BELLHOP_HOSTS": "bell.example, *.fleet.example", "BELLHOP_METRICS_NEED_TOKEN": "true", "BELLHOP_CONSOLE": "false",
		"BELLHOP_BROADCAST_KEEP": "1000,1h30m", "BELLHOP_DEAD_KEEP": "500,48h", "BELLHOP_DONE_KEEP": "700,24h", "BELLHOP_TOPIC_KEEP": "12h",
		"BELLHOP_NATS_URL": "nats://a:4222,tls://b", "BELLHOP_NATS_CREDS_FILE": creds, "BELLHOP_NATS_CA_FILE": ca,
		"BELLHOP_NATS_PREFIX": "shop.bells", "BELLHOP_NATS_JETSTREAM": "BELLS",
		"BELLHOP_REDIS_URL": "redis://redis.example.com:6380", "BELLHOP_REDIS_MASTER": "main", "BELLHOP_REDIS_USERNAME": "bell",
		"BELLHOP_REDIS_PASSWORD_FILE": password, "BELLHOP_REDIS_SENTINEL_USERNAME": "guest", "BELLHOP_REDIS_SENTINEL_PASSWORD_FILE": password, "BELLHOP_REDIS_CA_FILE": "", "BELLHOP_REDIS_CERT_FILE": "", "BELLHOP_REDIS_KEY_FILE": "", "BELLHOP_WAIT_REPLICAS": "2", "BELLHOP_PREFIX": "other", "BELLHOP_SHARDS": "8", "BELLHOP_MEMORY_SHARE": "75%",
		"BELLHOP_CARRIER_LEASE": "5s", "BELLHOP_CARRIER_BATCH": "100", "BELLHOP_LEASE": "1m", "BELLHOP_MAX_ATTEMPTS": "3",
		"BELLHOP_BACKOFF_MIN": "2s", "BELLHOP_BACKOFF_MAX": "1h", "BELLHOP_MAX_BODY": "1MiB", "BELLHOP_SHUTDOWN_TIMEOUT": "90s",
		"BELLHOP_PUSH_ALLOW":  "public,10.1.0.0/16",
		"BELLHOP_ARCHIVE_URL": "postgres://bell@db.example/archive", "BELLHOP_ARCHIVE_PASSWORD_FILE": password,
		"BELLHOP_OUTBOX_URL": "postgres://bell@db.example/shop postgres://bell@other.example/shop", "BELLHOP_OUTBOX_PASSWORD_FILE": password,
		"BELLHOP_LOG_LEVEL": "debug", "BELLHOP_LOG_FORMAT": "json",
	}
	set(t, vars)
	c, err := daemon.Load(os.Environ())
	storetest.Must(t, err)
	settings := c.Settings(os.Environ())
	if len(settings) != len(vars) {
		t.Errorf("%d settings, the test knows %d", len(settings), len(vars))
	}
	for _, s := range settings {
		want := vars[s.Name]
		if s.Name == "BELLHOP_SHUTDOWN_TIMEOUT" {
			want = "1m30s"
		}
		if s.Value != want || s.Source != "environment" {
			t.Errorf("%s is %q from %s, want %q from environment", s.Name, s.Value, s.Source, want)
		}
	}
	if n := c.Notify(); n.URL != vars["BELLHOP_REDIS_URL"] || n.Master != "main" || n.Username != "bell" || n.PasswordFile != password || n.SentinelUsername != "guest" || n.SentinelPasswordFile != password || n.Prefix != "other" || n.WaitReplicas != 2 || n.Shards != 8 || n.MemoryShare != 75 {
		t.Errorf("Notify() = %+v", n)
	}
	o := c.Nats(slog.New(slog.DiscardHandler))
	if o.URL != vars["BELLHOP_NATS_URL"] || o.CredsFile != creds || o.CAFile != ca || o.Prefix != "shop.bells" ||
		o.JetStream != "BELLS" ||
		o.KeepCount != 1000 || o.KeepAge != 90*time.Minute || o.MaxBody != 1<<20 {
		t.Errorf("Nats() = %+v", o)
	}
	if h := c.HTTP(nil); h.TokensFile != tokens || h.CertFile != cert || h.KeyFile != key || len(h.CORSOrigins) != 2 || len(h.Hosts) != 2 || h.Hosts[1] != "*.fleet.example" || !h.MetricsNeedToken || h.MaxBody != 1<<20 {
		t.Errorf("HTTP() = %+v", h)
	}
	if carry := c.Carrier(nil); carry.KeepCount != 1000 || carry.KeepAge != 90*time.Minute ||
		carry.KeepDeadCount != 500 || carry.KeepDeadAge != 48*time.Hour || carry.KeepTopics != 12*time.Hour {
		t.Errorf("Carrier() = %+v", carry)
	}
	if a := c.Archive(nil); a.URL != vars["BELLHOP_ARCHIVE_URL"] || a.PasswordFile != password || a.Room != 1000 {
		t.Errorf("Archive() = %+v", a)
	}
	if all := c.Doctor(nil).Outboxes; len(all) != 2 || all[1].URL != "postgres://bell@other.example/shop" || all[1].PasswordFile != password || all[1].MaxBody != 1<<20 {
		t.Errorf("Outboxes() = %+v", all)
	}
	if l := c.NamedListener(); l.Lease != time.Minute || l.MaxAttempts != 3 || l.BackoffMin != 2*time.Second || l.BackoffMax != time.Hour {
		t.Errorf("NamedListener() = %+v", l)
	}
}

// Calls without a token must name this machine, unless the settings let every client do everything.
func TestLocalHosts(t *testing.T) {
	for _, test := range []struct {
		c    daemon.Config
		want bool
	}{
		{daemon.Config{}, true},
		{daemon.Config{TokensFile: "tokens"}, true},
		{daemon.Config{ListenWithoutTokens: true}, false},
	} {
		if got := test.c.HTTP(nil).LocalHosts; got != test.want {
			t.Errorf("%+v: %v", test.c, got)
		}
	}
}

// natsFiles returns a credentials file and a file of a certificate.
func natsFiles(t *testing.T) (creds, ca string) {
	t.Helper()
	account, errAccount := nkeys.CreateAccount()
	user, errUser := nkeys.CreateUser()
	storetest.Must(t, errors.Join(errAccount, errUser))
	name, errName := user.PublicKey()
	seed, errSeed := user.Seed()
	claims, errClaims := jwt.NewUserClaims(name).Encode(account)
	text, errText := jwt.FormatUserConfig(claims, seed)
	storetest.Must(t, errors.Join(errName, errSeed, errClaims, errText))
	server := httptest.NewTLSServer(nil)
	server.Close()
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	creds, ca = filepath.Join(t.TempDir(), "creds"), filepath.Join(t.TempDir(), "ca.pem")
	storetest.Must(t, errors.Join(os.WriteFile(creds, text, 0o600), os.WriteFile(ca, certificate, 0o600)))
	return creds, ca
}

// httpFiles returns a file of tokens, and those of a certificate and its key.
func httpFiles(t *testing.T) (tokens, cert, key string) {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	server.Close()
	private, err := x509.MarshalPKCS8PrivateKey(server.TLS.Certificates[0].PrivateKey)
	storetest.Must(t, err)
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		storetest.Must(t, os.WriteFile(path, data, 0o600))
		return path
	}
	return write("tokens", []byte("shop 0123456789abcdef publish >\n")),
		write("cert.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})),
		write("key.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
}

func TestEachFault(t *testing.T) {
	tokens, cert, _ := httpFiles(t)
	for _, test := range []struct{ name, value, want string }{
		{"BELLHOP_REDIS_URL", "http://localhost", "BELLHOP_REDIS_URL: invalid redis URL"},
		{"BELLHOP_REDIS_PASSWORD_FILE", "/nowhere/password", "BELLHOP_REDIS_PASSWORD_FILE: read redis password file"},
		{"BELLHOP_REDIS_SENTINEL_PASSWORD_FILE", "/nowhere/password", "BELLHOP_REDIS_SENTINEL_PASSWORD_FILE: invalid user or password of the sentinels: no master is named"},
		{"BELLHOP_REDIS_SENTINEL_USERNAME", "guest", "BELLHOP_REDIS_SENTINEL_PASSWORD_FILE: invalid user or password of the sentinels: no master is named"},
		{"BELLHOP_REDIS_CA_FILE", "/nowhere/ca", "BELLHOP_REDIS_CA_FILE: read redis CA file"},
		{"BELLHOP_REDIS_CERT_FILE", "/nowhere/cert", "BELLHOP_REDIS_CERT_FILE: invalid redis certificate: a certificate and its key go together"},
		{"BELLHOP_REDIS_KEY_FILE", "/nowhere/key", "BELLHOP_REDIS_CERT_FILE: invalid redis certificate: a certificate and its key go together"},
		{"BELLHOP_WAIT_REPLICAS", "17", "BELLHOP_WAIT_REPLICAS: invalid number of replicas to wait for 17: use 0 to 16"},
		{"BELLHOP_WAIT_REPLICAS", "all", `BELLHOP_WAIT_REPLICAS "all": write a whole number`},
		{"BELLHOP_PREFIX", "a b", "BELLHOP_PREFIX: invalid prefix"},
		{"BELLHOP_SHARDS", "3", "BELLHOP_SHARDS: invalid shards 3: use a power of two, 1 to 256; or leave it out, for as many as the store has"},
		{"BELLHOP_SHARDS", "512", "BELLHOP_SHARDS: invalid shards 512: use a power of two, 1 to 256; or leave it out, for as many as the store has"},
		{"BELLHOP_SHARDS", "-1", "BELLHOP_SHARDS: invalid shards -1: use a power of two, 1 to 256; or leave it out, for as many as the store has"},
		{"BELLHOP_SHARDS", "many", `BELLHOP_SHARDS "many": write a whole number`},
		{"BELLHOP_MEMORY_SHARE", "most", `BELLHOP_MEMORY_SHARE "most": write a share such as 90%`},
		{"BELLHOP_MEMORY_SHARE", "0.9", `BELLHOP_MEMORY_SHARE "0.9": write a share such as 90%`},
		{"BELLHOP_MEMORY_SHARE", "0%", "BELLHOP_MEMORY_SHARE: invalid memory share 0%: use 1 to 100"},
		{"BELLHOP_MEMORY_SHARE", "101", "BELLHOP_MEMORY_SHARE: invalid memory share 101%: use 1 to 100"},
		{"BELLHOP_LISTEN", "localhost", `BELLHOP_LISTEN: invalid address "localhost": write HOST:PORT`},
		{"BELLHOP_LISTEN", "127.0.0.1:http", `BELLHOP_LISTEN: invalid address "127.0.0.1:http": write HOST:PORT`},
		{"BELLHOP_LISTEN", "", `BELLHOP_LISTEN: invalid address "": write HOST:PORT`},
		{"BELLHOP_LISTEN", "0.0.0.0:8420", "BELLHOP_LISTEN: invalid address 0.0.0.0:8420: other machines reach it"},
		{"BELLHOP_LISTEN", ":8420", "BELLHOP_LISTEN: invalid address :8420: other machines reach it"},
		{"BELLHOP_LISTEN", "[::]:8420", "BELLHOP_LISTEN: invalid address [::]:8420: other machines reach it"},
		{"BELLHOP_LISTEN", "bell.example:8420", "BELLHOP_LISTEN: invalid address bell.example:8420: other machines reach it"},
		{"BELLHOP_LISTEN_WITHOUT_TOKENS", "perhaps", `BELLHOP_LISTEN_WITHOUT_TOKENS "perhaps": write true or false`},
		{"BELLHOP_TOKENS_FILE", "/nowhere/tokens", "BELLHOP_TOKENS_FILE: read tokens file: open /nowhere/tokens"},
		{"BELLHOP_TOKENS_FILE", "/dev/null", "BELLHOP_TOKENS_FILE: read tokens file: read /dev/null: it is not a regular file"},
		{"BELLHOP_TLS_CERT_FILE", cert, "BELLHOP_TLS_CERT_FILE: invalid TLS files: only one of certificate and key is given"},
		{"BELLHOP_TLS_KEY_FILE", tokens, "BELLHOP_TLS_CERT_FILE: invalid TLS files: only one of certificate and key is given"},
		{"BELLHOP_CORS_ORIGINS", "example.com", `BELLHOP_CORS_ORIGINS: invalid origin "example.com": write SCHEME://HOST`},
		{"BELLHOP_CORS_ORIGINS", "https://a.example/", `BELLHOP_CORS_ORIGINS: invalid origin "https://a.example/": write SCHEME://HOST`},
		{"BELLHOP_HOSTS", "bell.example:8420", `BELLHOP_HOSTS: invalid host "bell.example:8420": write a name without a port`},
		{"BELLHOP_METRICS_NEED_TOKEN", "true", "BELLHOP_METRICS_NEED_TOKEN: it is true, and BELLHOP_TOKENS_FILE is not set; set both, or leave this out"},
		{"BELLHOP_METRICS_NAMES", "orders,payments.*", `BELLHOP_METRICS_NAMES: invalid topic "payments.*"`},
		{"BELLHOP_METRICS_NAMES", "other", `BELLHOP_METRICS_NAMES: invalid topic of metrics "other": it stands for the topics without series of their own`},
		{"BELLHOP_METRICS_TOPICS", "0", "BELLHOP_METRICS_TOPICS: invalid topic limit of metrics 0: use 1 to 10000"},
		{"BELLHOP_CARRIER_LEASE", "3", `BELLHOP_CARRIER_LEASE "3": write a duration`},
		{"BELLHOP_CARRIER_LEASE", "1ms", "BELLHOP_CARRIER_LEASE: invalid carrier lease 1ms: use 500ms to 10m"},
		{"BELLHOP_CARRIER_BATCH", "many", `BELLHOP_CARRIER_BATCH "many": write a whole number`},
		{"BELLHOP_CARRIER_BATCH", "0", fmt.Sprintf("BELLHOP_CARRIER_BATCH: invalid carrier batch 0: use 1 to %d", carrier.MaxBatch)},
		{"BELLHOP_CARRIER_LEASE", "", "BELLHOP_CARRIER_LEASE: it is empty; leave it out for the default, 3s"},
		{"BELLHOP_LEASE", "9999999h", `BELLHOP_LEASE "9999999h": it is too long; the longest duration is 106751d`},
		{"BELLHOP_LEASE", "1d1h", "BELLHOP_LEASE: invalid lease 25h: use 100ms to 24h"},
		{"BELLHOP_LEASE", "25h", "BELLHOP_LEASE: invalid lease 25h: use 100ms to 24h"},
		{"BELLHOP_LEASE", "0s", "BELLHOP_LEASE: invalid lease 0s: use 100ms to 24h"},
		{"BELLHOP_MAX_ATTEMPTS", "-1", "BELLHOP_MAX_ATTEMPTS: invalid attempts -1: use 1 to 1000000"},
		{"BELLHOP_MAX_ATTEMPTS", "1000001", "BELLHOP_MAX_ATTEMPTS: invalid attempts 1000001: use 1 to 1000000"},
		{"BELLHOP_BACKOFF_MIN", "0s", "BELLHOP_BACKOFF_MIN: invalid backoff_min 0s: use 1ms to 8784h"},
		{"BELLHOP_BACKOFF_MIN", "999us", "BELLHOP_BACKOFF_MIN: invalid backoff_min 999µs: use 1ms to 8784h"},
		{"BELLHOP_BACKOFF_MIN", "367d", "BELLHOP_BACKOFF_MIN: invalid backoff_min 8808h: use 1ms to 8784h"},
		{"BELLHOP_BACKOFF_MIN", "11m", "BELLHOP_BACKOFF_MAX: invalid backoff_max 10m: it is less than backoff_min, 11m"},
		{"BELLHOP_BACKOFF_MAX", "0s", "BELLHOP_BACKOFF_MAX: invalid backoff_max 0s: use 1ms to 8784h"},
		{"BELLHOP_BACKOFF_MAX", "-1s", "BELLHOP_BACKOFF_MAX: invalid backoff_max -1s: use 1ms to 8784h"},
		{"BELLHOP_BACKOFF_MAX", "1ms", "BELLHOP_BACKOFF_MAX: invalid backoff_max 1ms: it is less than backoff_min, 1s"},
		{"BELLHOP_BACKOFF_MAX", "367d", "BELLHOP_BACKOFF_MAX: invalid backoff_max 8808h: use 1ms to 8784h"},
		{"BELLHOP_MAX_BODY", "lots", `BELLHOP_MAX_BODY "lots": write bytes such as`},
		{"BELLHOP_MAX_BODY", "9999999999GiB", `BELLHOP_MAX_BODY "9999999999GiB": write bytes such as`},
		{"BELLHOP_MAX_BODY", "1GiB", "BELLHOP_MAX_BODY: invalid max body 1073741824: use 1 to 67108864"},
		{"BELLHOP_BROADCAST_KEEP", "1000", `BELLHOP_BROADCAST_KEEP "1000": write a count and an age such as 100000,24h`},
		{"BELLHOP_BROADCAST_KEEP", "1000,", `BELLHOP_BROADCAST_KEEP "1000,": write a count and an age`},
		{"BELLHOP_BROADCAST_KEEP", "many,1h", `BELLHOP_BROADCAST_KEEP "many,1h": write a count and an age`},
		{"BELLHOP_BROADCAST_KEEP", "0,1h", "BELLHOP_BROADCAST_KEEP: invalid count of broadcasts to keep 0: use 1 to 10000000"},
		{"BELLHOP_BROADCAST_KEEP", "1,1ms", "BELLHOP_BROADCAST_KEEP: invalid age of broadcasts to keep 1ms: use 1s to"},
		{"BELLHOP_NATS_URL", "http://localhost", "BELLHOP_NATS_URL: invalid nats URL http://localhost: its scheme is neither nats nor tls"},
		{"BELLHOP_NATS_PREFIX", "a.>", "BELLHOP_NATS_PREFIX: invalid nats prefix"},
		{"BELLHOP_NATS_CREDS_FILE", "/nowhere/creds", "BELLHOP_NATS_CREDS_FILE: it is set, and BELLHOP_NATS_URL is not"},
		{"BELLHOP_NATS_CA_FILE", "/nowhere/ca", "BELLHOP_NATS_CA_FILE: it is set, and BELLHOP_NATS_URL is not"},
		{"BELLHOP_NATS_JETSTREAM", "BELLS", "BELLHOP_NATS_JETSTREAM: it is set, and BELLHOP_NATS_URL is not"},
		{"BELLHOP_ARCHIVE_URL", "mysql://u:secret@h/d", "BELLHOP_ARCHIVE_URL: invalid url: it does not begin with postgres://"},
		{"BELLHOP_ARCHIVE_URL", "postgres://u:sec%ret@h/d", "BELLHOP_ARCHIVE_URL: invalid url: it is no URL"},
		{"BELLHOP_ARCHIVE_URL", "postgres://u@h/d?sslmode=maybe", "BELLHOP_ARCHIVE_URL: invalid url: "},
		{"BELLHOP_OUTBOX_URL", "postgres://u@h/d mysql://u:secret@h/d", "BELLHOP_OUTBOX_URL: invalid url: it does not begin with postgres://"},
		{"BELLHOP_OUTBOX_URL", "postgres://u:secret@h/d  postgres://u:another-secret@h/d", "BELLHOP_OUTBOX_URL: postgres://u:xxxxx@h/d is there twice; leave one out"},
		{"BELLHOP_OUTBOX_PASSWORD_FILE", "/nowhere/password", "BELLHOP_OUTBOX_PASSWORD_FILE: it is set, and BELLHOP_OUTBOX_URL is not"},
		{"BELLHOP_ARCHIVE_PASSWORD_FILE", "/nowhere/password", "BELLHOP_ARCHIVE_PASSWORD_FILE: it is set, and BELLHOP_ARCHIVE_URL is not"},
		{"BELLHOP_SHUTDOWN_TIMEOUT", "-1s", "BELLHOP_SHUTDOWN_TIMEOUT: invalid shutdown timeout -1s: use 1ms to 1h"},
		{"BELLHOP_LOG_LEVEL", "loud", `BELLHOP_LOG_LEVEL "loud": write debug, info, warn or error`},
		{"BELLHOP_LOG_FORMAT", "xml", `BELLHOP_LOG_FORMAT: "xml" is no format; use text or json`},
		{"BELLHOP_REDIS_URI", "x", "BELLHOP_REDIS_URI is not a setting; did you mean BELLHOP_REDIS_URL?"},
		{"BELLHOP_MAXATTEMPTS", "x", "BELLHOP_MAXATTEMPTS is not a setting; did you mean BELLHOP_MAX_ATTEMPTS?"},
	} {
		t.Run(test.name+"="+test.value, func(t *testing.T) {
			set(t, map[string]string{test.name: test.value})
			_, err := daemon.Load(os.Environ())
			wantFault(t, err, test.want)
		})
	}
}

// wantFault checks that an error is one line with a prefix, and the Fault of the setting that the prefix names.
func wantFault(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v, want one line that begins with %s", err, want)
	}
	var fault *notify.Fault
	if setting := strings.FieldsFunc(want, func(r rune) bool { return r == ' ' || r == ':' })[0]; !errors.As(err, &fault) || fault.Field != setting {
		t.Errorf("%v is a fault of %+v, want %s", err, fault, setting)
	}
}

func TestEachFaultOfNATS(t *testing.T) {
	for _, test := range []struct{ name, value, want string }{
		{"BELLHOP_NATS_CREDS_FILE", "/nowhere/creds", "BELLHOP_NATS_CREDS_FILE: read nats credentials file"},
		{"BELLHOP_NATS_CREDS_FILE", "/dev/null", "BELLHOP_NATS_CREDS_FILE: read nats credentials file: read /dev/null: it is not a regular file"},
		{"BELLHOP_NATS_CA_FILE", "/nowhere/ca", "BELLHOP_NATS_CA_FILE: read nats CA file"},
		{"BELLHOP_NATS_CA_FILE", "/dev/null", "BELLHOP_NATS_CA_FILE: read nats CA file: read /dev/null: it is not a regular file"},
		{"BELLHOP_NATS_JETSTREAM", "a.b", "BELLHOP_NATS_JETSTREAM: invalid jetstream"},
		{"BELLHOP_NATS_PREFIX", strings.Repeat("a", 65), "BELLHOP_NATS_PREFIX: invalid nats prefix"},
	} {
		t.Run(test.name+"="+test.value, func(t *testing.T) {
			set(t, map[string]string{"BELLHOP_NATS_URL": "nats://127.0.0.1", test.name: test.value})
			_, err := daemon.Load(os.Environ())
			wantFault(t, err, test.want)
		})
	}
}

// A pipe in the place of a file is refused at once, without waiting for a writer.
func TestFilesThatArePipes(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	storetest.Must(t, syscall.Mkfifo(pipe, 0o600))
	for _, test := range []map[string]string{
		{"BELLHOP_TOKENS_FILE": pipe},
		{"BELLHOP_TLS_CERT_FILE": pipe, "BELLHOP_TLS_KEY_FILE": pipe},
		{"BELLHOP_REDIS_PASSWORD_FILE": pipe},
		{"BELLHOP_REDIS_URL": "rediss://a", "BELLHOP_REDIS_CA_FILE": pipe},
		{"BELLHOP_REDIS_URL": "rediss://a", "BELLHOP_REDIS_CERT_FILE": pipe, "BELLHOP_REDIS_KEY_FILE": pipe},
		{"BELLHOP_REDIS_URL": "redis://a,redis://b", "BELLHOP_REDIS_MASTER": "m", "BELLHOP_REDIS_SENTINEL_PASSWORD_FILE": pipe},
		{"BELLHOP_NATS_URL": "nats://a", "BELLHOP_NATS_CREDS_FILE": pipe},
		{"BELLHOP_NATS_URL": "tls://a", "BELLHOP_NATS_CA_FILE": pipe},
		{"BELLHOP_ARCHIVE_URL": "postgres://u@h/d", "BELLHOP_ARCHIVE_PASSWORD_FILE": pipe},
		{"BELLHOP_OUTBOX_URL": "postgres://u@h/d postgres://u@h/e", "BELLHOP_OUTBOX_PASSWORD_FILE": pipe},
	} {
		set(t, test)
		fault := make(chan error, 1)
		go func() {
			_, err := daemon.Load(os.Environ())
			fault <- err
		}()
		if err := storetest.Receive(t, "the fault", fault); err == nil || strings.Count(err.Error(), pipe+": it is not a regular file") != 1 {
			t.Errorf("%v: got %v", test, err)
		}
	}
}

func TestAllFaultsAtOnce(t *testing.T) {
	set(t, map[string]string{
		"BELLHOP_LEASE": "soon", "BELLHOP_MAX_ATTEMPTS": "0", "BELLHOP_PREFIX": "ä", "BELLHOP_LOG_FORMAT": "xml", "BELLHOP_TOPIC": "x",
	})
	_, err := daemon.Load(os.Environ())
	if err == nil {
		t.Fatal("no error")
	}
	faults := strings.Split(err.Error(), "\n")
	if len(faults) != 5 {
		t.Errorf("%d faults, want 5:\n%v", len(faults), err)
	}
	for _, name := range []string{"LEASE", "MAX_ATTEMPTS", "PREFIX", "LOG_FORMAT", "TOPIC"} {
		if !strings.Contains(err.Error(), "BELLHOP_"+name) {
			t.Errorf("BELLHOP_%s is not named:\n%v", name, err)
		}
	}
}

func TestSecretsAreNotPrinted(t *testing.T) {
	const secret = "geheim"
	for _, urls := range [][2]string{
		{"redis://:" + secret + "@127.0.0.1:6379", "nats://" + secret + "@127.0.0.1:4222"},
		{"redis://u:" + secret + "@a:1,redis://u:" + secret + "@b:2", "tls://u:" + secret + "@a:1,nats://" + secret + "@b:2"},
	} {
		database := "postgres://u:" + secret + "@a/d?sslpassword=" + secret
		set(t, map[string]string{"BELLHOP_REDIS_URL": urls[0], "BELLHOP_NATS_URL": urls[1], "BELLHOP_ARCHIVE_URL": database, "BELLHOP_OUTBOX_URL": database + " postgres://u:" + secret + "@b/d"})
		c, err := daemon.Load(os.Environ())
		storetest.Must(t, err)
		var log strings.Builder
		slog.New(slog.NewTextHandler(&log, nil)).Info("x", "url", c.RedisURL, "nats", c.NatsURL, "archive", c.ArchiveURL, "config", c)
		slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "url", c.RedisURL, "nats", c.NatsURL, "archive", c.ArchiveURL, "config", c)
		asJSON, err := json.Marshal([]any{c, c.Settings(os.Environ())})
		storetest.Must(t, err)
		printed := fmt.Sprintf("%v %+v %#v %s %q %s %q %s %q %v", c, c, c, c.RedisURL, c.RedisURL, c.NatsURL, c.NatsURL, c.ArchiveURL, c.ArchiveURL, c.Settings(os.Environ())) + string(asJSON) + log.String()
		if strings.Contains(printed, secret) {
			t.Errorf("the password is printed: %s", printed)
		}
	}
	for _, url := range []string{"redis://:" + secret + "@127.0.0.1:no", "http://u:" + secret + "@a", "redis://:" + secret + "@a:%zz"} {
		set(t, map[string]string{"BELLHOP_REDIS_URL": url, "BELLHOP_NATS_URL": url, "BELLHOP_ARCHIVE_URL": url, "BELLHOP_OUTBOX_URL": url, "BELLHOP_LEASE": "x"})
		if _, err := daemon.Load(os.Environ()); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("the error is %v, want one without the password", err)
		}
	}
}

func TestSize(t *testing.T) {
	for _, test := range []struct {
		in   string
		want daemon.Size
		out  string
	}{
		{"262144", 262144, "256KiB"},
		{"256KiB", 262144, "256KiB"},
		{"1MiB", 1 << 20, "1MiB"},
		{"1 MiB", 1 << 20, "1MiB"},
		{"1000B", 1000, "1000"},
		{"1", 1, "1"},
		{"0", 0, "0"},
	} {
		var got daemon.Size
		if err := got.Decode(test.in); err != nil || got != test.want || got.String() != test.out {
			t.Errorf("%q is %d, %q, %v; want %d, %q", test.in, got, got, err, test.want, test.out)
		}
	}
	for _, bad := range []string{"", "x", "-1", "1.5MiB", "1KB", "KiB", "9999999999999999999"} {
		var got daemon.Size
		if err := got.Decode(bad); err == nil {
			t.Errorf("%q is taken for %d", bad, got)
		}
	}
}
