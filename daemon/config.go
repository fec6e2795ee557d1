package daemon

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-multierror"
	"github.com/kelseyhightower/envconfig"
	"github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/daemon/metrics"
	"github.com/bellhopd/bellhop/daemon/natsgate"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/fields"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/subscribers"
)

// envPrefix is what the names of all settings begin with, before an underscore.
const envPrefix = "BELLHOP"

// Config is the configuration. Each field is a setting: RedisURL is read from
// the environment variable BELLHOP_REDIS_URL, and so on.
type Config struct {
	RedisURL                  URLs          `split_words:"true" default:"redis://127.0.0.1:6379" desc:"Redis that holds the messages: redis://, rediss:// (TLS) or unix://. Several, separated by commas, are a Cluster or, with REDIS_MASTER, its sentinels."`
	RedisMaster               string        `split_words:"true" desc:"Name of the master that Redis Sentinel watches."`
	RedisUsername             string        `split_words:"true" desc:"User of Redis; overrides the one in REDIS_URL."`
	RedisPasswordFile         string        `split_words:"true" desc:"File that holds the password of Redis; overrides the one in REDIS_URL."`
	RedisSentinelUsername     string        `split_words:"true" desc:"User of the sentinels, where they want one."`
	RedisSentinelPasswordFile string        `split_words:"true" desc:"File that holds the password of the sentinels, which may be another one than that of Redis."`
	RedisCAFile               string        `split_words:"true" desc:"File of PEM certificates to trust, for rediss://."`
	RedisCertFile             string        `split_words:"true" desc:"File of the PEM certificate to show Redis, for rediss://. Read anew for each connection."`
	RedisKeyFile              string        `split_words:"true" desc:"File of its PEM private key."`
	WaitReplicas              int           `split_words:"true" default:"0" desc:"Replicas of Redis that must have what is published, cancelled, rescheduled or acknowledged before that is answered."`
	Prefix                    string        `split_words:"true" default:"bellhop" desc:"What the names of all keys and channels in Redis begin with."`
	MemoryShare               Percent       `split_words:"true" default:"90%" desc:"Share of Redis's maxmemory from which on publishes are refused, so that all else has room; 100%: only Redis itself refuses."`
	Listen                    string        `split_words:"true" default:"127.0.0.1:8420" desc:"Address that HTTP is served on, HOST:PORT; none: HTTP is not served. Sockets that systemd passes on take its place."`
	ListenWithoutTokens       bool          `split_words:"true" default:"false" desc:"Serve HTTP to other machines although there is no TOKENS_FILE: whoever reaches it may do everything."`
	TokensFile                string        `split_words:"true" desc:"File of who may do what over HTTP: lines of NAME TOKEN RIGHTS TOPICS. Read anew on reload. Without it everybody may do everything."`
	TLSCertFile               string        `split_words:"true" desc:"File of PEM certificates, to serve HTTP with TLS. Read anew on reload."`
	TLSKeyFile                string        `split_words:"true" desc:"File of the PEM private key of the first certificate."`
	CORSOrigins               List          `split_words:"true" desc:"Origins of the pages that may call over HTTP, separated by commas, such as https://example.com; *: all."`
	Hosts                     List          `split_words:"true" desc:"Names that the daemon goes by beside those of its machine, separated by commas; *.example.com: all below that. What needs no token is refused to who calls it by another name."`
	MetricsNeedToken          bool          `split_words:"true" default:"false" desc:"Show /metrics only to who has a token with the right metrics, on all topics."`
	MetricsTopics             int           `split_words:"true" default:"100" desc:"Topics that have series of their own in /metrics because they stand out, those in trouble first, then those with much traffic; the others are added up as other."`
	MetricsNames              List          `split_words:"true" desc:"Topics that always have series of their own in /metrics beside these, separated by commas."`
	CarrierLease              time.Duration `split_words:"true" default:"3s" desc:"Lease of the elected carrier: how long until a killed one is replaced."`
	CarrierBatch              int           `split_words:"true" default:"500" desc:"Messages that the carrier moves in one call to Redis, at the most."`
	Lease                     time.Duration `split_words:"true" desc:"Lease of a message in a worker's hands, extended while the handler runs, of topics that have no setting of it; and of what a named listener has. A store that has a default already keeps that; without any, 30s holds."`
	MaxAttempts               int           `split_words:"true" desc:"Attempts of a message that has no limit of its own, of topics that have no setting of it; then it is dead. Also of what a named listener has. A store that has a default already keeps that; without any, 10 holds."`
	BackoffMin                time.Duration `split_words:"true" desc:"Longest wait after the first failed attempt, of topics that have no setting of it; it doubles with each. Also of a named listener. A store that has a default already keeps that; without any, 1s holds."`
	BackoffMax                time.Duration `split_words:"true" desc:"Longest wait after many failed attempts, of topics that have no setting of it, and of a named listener. A store that has a default already keeps that; without any, 10m holds."`
	MaxBody                   Size          `split_words:"true" default:"256KiB" desc:"Largest body of a message that is published."`
	BroadcastKeep             Keep          `split_words:"true" default:"100000,24h" desc:"Broadcasts that a topic's log keeps for those who come back: how many, and for how long."`
	DeadKeep                  Keep          `split_words:"true" default:"100000,2160h" desc:"Dead letters that a topic keeps: how many, and for how long. Older ones are removed."`
	TopicKeep                 time.Duration `split_words:"true" default:"720h" desc:"For how long a topic is remembered of which nothing is left: its counters, and where its broadcasts ended."`
	NatsURL                   NatsURLs      `split_words:"true" desc:"NATS to offer this over: nats:// or tls://, with USER:PASSWORD@ or TOKEN@ where it is wanted. Several, separated by commas, are servers of one cluster."`
	NatsCredsFile             string        `split_words:"true" desc:"Credentials file of a user of NATS, as nsc writes it."`
	NatsCAFile                string        `split_words:"true" desc:"File of PEM certificates to trust, for NATS with TLS."`
	NatsPrefix                string        `split_words:"true" default:"bellhop" desc:"What all subjects of NATS begin with."`
	NatsDeliver               string        `split_words:"true" desc:"Topics whose messages are sent over NATS to whoever listens: TOPIC or TOPIC:N, separated by commas, N messages in flight at the most."`
	NatsJetstream             string        `split_words:"true" desc:"JetStream stream that broadcasts go to, so that none is lost while NATS is away."`
	ShutdownTimeout           time.Duration `split_words:"true" default:"20s" desc:"How long a stop may take in good order; handlers may go on for as long."`
	LogLevel                  slog.Level    `split_words:"true" default:"info" desc:"Lowest level that is logged: debug, info, warn or error."`
	LogFormat                 string        `split_words:"true" default:"text" desc:"Format of the log: text or json."`
}

// Limits of settings.
const (
	maxMaxBody         = 64 << 20
	maxShutdownTimeout = time.Hour
)

// Load reads the configuration from the environment, and takes a setting of a
// file that is not there from systemd's credentials. The error tells all
// faults, one a line: values that cannot be read or are out of range, and
// BELLHOP_ variables that are no settings. What could be read is returned with it.
func Load() (Config, error) {
	var c Config
	faults := &multierror.Error{ErrorFormat: lines}
	unread := make(map[string]bool)
	v := reflect.ValueOf(&c).Elem()
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if err := readField(field, v.Field(i)); err != nil {
			name := settingName(field)
			unread[name] = true
			faults = multierror.Append(faults, store.Renamed(name, err))
		}
	}
	told := make(map[string]bool) // what two parts judge
	for _, f := range c.faults() {
		text := f.Field + ": " + f.Error()
		if !unread[f.Field] && !told[text] {
			faults = multierror.Append(faults, store.Renamed(f.Field, fmt.Errorf("%s: %w", f.Field, f.Err)))
		}
		told[text] = true
	}
	faults = multierror.Append(faults, unknown(os.Environ())...)
	return c, faults.ErrorOrNil()
}

// lines puts each fault on a line of its own.
func lines(faults []error) string {
	texts := make([]string, len(faults))
	for i, err := range faults {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "\n")
}

// alone returns a new struct of one field, as envconfig wants it: it stops at
// the first fault, and they are all wanted.
func alone(field reflect.StructField) reflect.Value {
	return reflect.New(reflect.StructOf([]reflect.StructField{field}))
}

// readField reads one setting. One that cannot be read has its zero value.
func readField(field reflect.StructField, into reflect.Value) error {
	name := settingName(field)
	if file := credential(name); file != "" && !isSet(name) {
		into.SetString(file)
		return nil
	}
	text := os.Getenv(name)
	if text == "" && field.Tag.Get("default") == "" {
		return nil // as it stands in the environment file
	}
	if text != "" && field.Type == reflect.TypeFor[time.Duration]() { // envconfig knows no days
		d, err := fields.ParseDuration(name, text)
		if err != nil {
			return errors.New(strings.TrimPrefix(err.Error(), notify.ErrInvalid.Error()+" "))
		}
		into.SetInt(int64(d))
		return nil
	}
	one := alone(field)
	err := envconfig.Process(envPrefix, one.Interface())
	into.Set(one.Elem().Field(0))
	var bad *envconfig.ParseError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &bad):
		return fmt.Errorf("%s: %w", name, err)
	case bad.Value == "":
		return fmt.Errorf("%s: it is empty; leave it out for the default, %s", bad.KeyName, field.Tag.Get("default"))
	}
	return fmt.Errorf("%s %q: write %s", bad.KeyName, bad.Value, grammar(into.Interface()))
}

// settingName returns the name of a field's variable. Only envconfig's template of a usage tells it.
func settingName(field reflect.StructField) string {
	var name bytes.Buffer
	if err := envconfig.Usagef(envPrefix, alone(field).Interface(), &name, "{{range .}}{{usage_key .}}{{end}}"); err != nil {
		return field.Name
	}
	return name.String()
}

// grammar says how to write a value of a type.
func grammar(value any) string {
	switch value.(type) {
	case time.Duration:
		return "a duration such as 500ms, 30s, 10m or 1d"
	case Size:
		return "bytes such as 262144, 256KiB or 1MiB"
	case Percent:
		return "a share such as 90%"
	case Keep:
		return "a count and an age such as 100000,24h"
	case bool:
		return "true or false"
	case slog.Level:
		return "debug, info, warn or error"
	}
	return "a whole number"
}

// faults returns what is wrong with values that could be read. Each part judges
// its own options; here stands what no part knows.
func (c *Config) faults() []*store.Fault {
	return slices.Concat(
		ofPart("REDIS", c.checkRedis()), c.httpFaults(), c.natsFaults(),
		ofPart("CARRIER", c.Carrier(nil).Check()), ofPart("", c.checkSettings()),
		store.Faults(errors.Join(
			store.Within("BELLHOP_METRICS_TOPICS", "topic limit of metrics", c.MetricsTopics, 1, metrics.MaxTopicLimit),
			store.Within("BELLHOP_MAX_BODY", "max body", int(c.MaxBody), 1, maxMaxBody),
			store.Within("BELLHOP_SHUTDOWN_TIMEOUT", "shutdown timeout", c.ShutdownTimeout, time.Millisecond, maxShutdownTimeout),
			c.checkLogFormat(),
		)),
	)
}

// settingsOf are the settings of options that have another name.
var settingsOf = map[string]string{
	"keep_count": "BROADCAST_KEEP", "keep_age": "BROADCAST_KEEP",
	"keep_dead_count": "DEAD_KEEP", "keep_dead_age": "DEAD_KEEP", "keep_topics": "TOPIC_KEEP",
	"attempts": "MAX_ATTEMPTS",
}

// ofPart returns the faults of a part's options by their settings. An option
// that no setting sets has its default.
func ofPart(part string, err error) (all []*store.Fault) {
	settings := make(map[string]bool)
	for field := range reflect.TypeFor[Config]().Fields() {
		settings[settingName(field)] = true
	}
	for _, f := range store.Faults(err) {
		name := cmp.Or(settingsOf[f.Field], strings.ToUpper(f.Field))
		for _, setting := range []string{envPrefix + "_" + part + "_" + name, envPrefix + "_" + name} {
			if settings[setting] {
				all = append(all, &store.Fault{Field: setting, Err: f})
				break
			}
		}
	}
	return all
}

// checkRedis has notify judge the settings of Redis.
func (c *Config) checkRedis() error {
	if c.MemoryShare == 0 { // which stands for the default there
		return errors.Join(store.Faultf("memory_share", "memory share 0%%: use 1 to 100"), c.opens())
	}
	return c.opens()
}

func (c *Config) opens() error {
	s, err := notify.Open(c.Notify())
	if err == nil {
		s.Close() // it was never connected
	}
	return err
}

func (c *Config) checkLogFormat() error {
	if c.LogFormat != "text" && c.LogFormat != "json" {
		return store.Renamed("BELLHOP_LOG_FORMAT", fmt.Errorf("%q is no format; use text or json", c.LogFormat))
	}
	return nil
}

// natsFaults has natsgate judge the settings of NATS. One that is set for
// nothing is a fault, too.
func (c *Config) natsFaults() (all []*store.Fault) {
	o, err := c.Nats(nil)
	if c.NatsURL == "" {
		o.URL = nats.DefaultURL
		for _, set := range []struct{ name, value string }{
			{"CREDS_FILE", c.NatsCredsFile}, {"CA_FILE", c.NatsCAFile}, {"JETSTREAM", c.NatsJetstream}, {"DELIVER", c.NatsDeliver},
		} {
			if set.value != "" {
				all = append(all, &store.Fault{Field: envPrefix + "_NATS_" + set.name, Err: errors.New("it is set, and BELLHOP_NATS_URL is not; set that, too, or leave this out")})
			}
		}
		o.CredsFile, o.CAFile, o.JetStream, o.Deliver, err = "", "", "", nil, nil
	}
	_, errGate := natsgate.New(nil, o)
	return append(all, ofPart("NATS", errors.Join(errGate, err))...)
}

// Notify returns which Redis to use.
func (c Config) Notify() notify.Config {
	return notify.Config{
		URL: string(c.RedisURL), Master: c.RedisMaster, Username: c.RedisUsername,
		SentinelUsername: c.RedisSentinelUsername, SentinelPasswordFile: c.RedisSentinelPasswordFile,
		PasswordFile: c.RedisPasswordFile, CAFile: c.RedisCAFile, CertFile: c.RedisCertFile, KeyFile: c.RedisKeyFile,
		Prefix: c.Prefix, WaitReplicas: c.WaitReplicas, MemoryShare: int(c.MemoryShare),
	}
}

// Publisher returns the options of a publisher.
func (c Config) Publisher() notify.PublisherOptions {
	return notify.PublisherOptions{MaxBody: int(c.MaxBody)}
}

// Carrier returns the options of a carrier.
func (c Config) Carrier(log *slog.Logger) carrier.Options {
	return carrier.Options{
		Lease: c.CarrierLease, Batch: c.CarrierBatch,
		KeepCount: c.BroadcastKeep.Count, KeepAge: c.BroadcastKeep.Age, Logger: log,
		KeepDeadCount: c.DeadKeep.Count, KeepDeadAge: c.DeadKeep.Age, KeepTopics: c.TopicKeep,
	}
}

// Nats returns the options of a gate to NATS. The error is a notify.ErrInvalid
// that Load tells as well.
func (c Config) Nats(log *slog.Logger) (natsgate.Options, error) {
	deliver, err := natsgate.ParseDeliver(c.NatsDeliver)
	return natsgate.Options{
		URL: string(c.NatsURL), CredsFile: c.NatsCredsFile, CAFile: c.NatsCAFile, Prefix: c.NatsPrefix,
		Deliver: deliver, JetStream: c.NatsJetstream, KeepCount: c.BroadcastKeep.Count, KeepAge: c.BroadcastKeep.Age,
		MaxBody: int(c.MaxBody),
		Grace:   min(natsgate.DefaultGrace, c.ShutdownTimeout/4), Logger: log,
	}, err
}

// HTTP returns the options of a gate to HTTP.
func (c Config) HTTP(log *slog.Logger) httpapi.Options {
	return httpapi.Options{
		TokensFile: c.TokensFile, CertFile: c.TLSCertFile, KeyFile: c.TLSKeyFile, CORSOrigins: c.CORSOrigins.Words(),
		LocalHosts: !c.ListenWithoutTokens, Hosts: c.Hosts.Words(), MetricsNeedToken: c.MetricsNeedToken,
		MaxBody: int(c.MaxBody), Logger: log,
	}
}

// Subscriber returns the options of a subscriber.
func (c Config) Subscriber(log *slog.Logger) subscribers.Options {
	return subscribers.Options{Grace: c.ShutdownTimeout, Logger: log}
}

// NamedListener returns the options of a named listener.
func (c Config) NamedListener() subscribers.ListenOptions {
	return subscribers.ListenOptions{
		Lease: c.Lease, MaxAttempts: c.MaxAttempts,
		Backoff: subscribers.Backoff{Min: c.BackoffMin, Max: c.BackoffMax},
	}
}
