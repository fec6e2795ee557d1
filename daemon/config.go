package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-multierror"
	"github.com/kelseyhightower/envconfig"
	"github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon/archive"
	"github.com/bellhopd/bellhop/daemon/database"
	"github.com/bellhopd/bellhop/daemon/doctor"
	"github.com/bellhopd/bellhop/daemon/environ"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/daemon/metrics"
	"github.com/bellhopd/bellhop/daemon/natsgate"
	"github.com/bellhopd/bellhop/daemon/outbox"
	"github.com/bellhopd/bellhop/daemon/push"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/fields"
	"github.com/bellhopd/bellhop/subscribers"
)

// envPrefix is the prefix of all settings' names, before an underscore.
const envPrefix = "BELLHOP"

// Config is the configuration. Each field is a setting: RedisURL is read from
// the environment variable BELLHOP_REDIS_URL, and so on.
type Config struct {
	RedisURL                  URLs          `split_words:"true" default:"redis://127.0.0.1:6379" desc:"Redis that holds the messages: redis://, rediss:// (TLS) or unix://. Several, separated by commas, are a Cluster or, with REDIS_MASTER, its sentinels."`
	RedisMaster               string        `split_words:"true" desc:"Name of the master that Redis Sentinel watches."`
	RedisUsername             string        `split_words:"true" desc:"User of Redis; overrides the one in REDIS_URL."`
	RedisPasswordFile         string        `split_words:"true" desc:"File that holds the password of Redis; overrides the one in REDIS_URL."`
	RedisSentinelUsername     string        `split_words:"true" desc:"User of the sentinels, if they require one."`
	RedisSentinelPasswordFile string        `split_words:"true" desc:"File that holds the password of the sentinels, which may differ from that of Redis."`
	RedisCAFile               string        `split_words:"true" desc:"File of PEM certificates to trust, for rediss://."`
	RedisCertFile             string        `split_words:"true" desc:"File of the PEM client certificate for Redis, for rediss://. Read again for each connection."`
	RedisKeyFile              string        `split_words:"true" desc:"File of the PEM private key of that certificate."`
	WaitReplicas              int           `split_words:"true" default:"0" desc:"Replicas of Redis that must have a publish, cancel, reschedule or acknowledgement before it is confirmed."`
	Prefix                    string        `split_words:"true" default:"bellhop" desc:"Prefix of all keys and channels in Redis."`
	Shards                    int           `split_words:"true" desc:"Shards of a store that is new: a power of two up to 256. Each has a carrier and lies on one master of a Cluster; twice as many as masters is a good number. An existing store has those that it was made with, and another number is refused."`
	MemoryShare               Percent       `split_words:"true" default:"90%" desc:"Share of Redis's maxmemory above which publishes are refused, so that everything else still works; 100%: only Redis itself refuses."`
	Listen                    string        `split_words:"true" default:"127.0.0.1:8420" desc:"Address of HTTP, HOST:PORT; none: HTTP is not served. Sockets passed on by systemd replace it."`
	ListenWithoutTokens       bool          `split_words:"true" default:"false" desc:"Serve HTTP to other machines without TOKENS_FILE: every client may do everything."`
	TokensFile                string        `split_words:"true" desc:"File of the clients of HTTP and their rights, in lines of NAME TOKEN RIGHTS TOPICS. Read again on reload. Without it every client may do everything."`
	TLSCertFile               string        `split_words:"true" desc:"File of PEM certificates, to serve HTTP with TLS. Read again on reload."`
	TLSKeyFile                string        `split_words:"true" desc:"File of the PEM private key of the first certificate."`
	CORSOrigins               List          `split_words:"true" desc:"Origins of web pages that may call over HTTP, separated by commas, such as https://example.com; *: all."`
	Hosts                     List          `split_words:"true" desc:"Names of the daemon beside those of its machine, separated by commas; *.example.com: all names below that. Calls without a token to any other name are refused."`
	Console                   bool          `split_words:"true" default:"true" desc:"Serve the console, the pages for operators under /ui/, to clients with a token where there are tokens, and keep a history of rates and lateness for it."`
	MetricsNeedToken          bool          `split_words:"true" default:"false" desc:"Serve /metrics only to clients with a token that has the right metrics on all topics."`
	MetricsTopics             int           `split_words:"true" default:"100" desc:"Topics with series of their own in /metrics: those in trouble first, then those with most traffic. The others are added up as other."`
	MetricsNames              List          `split_words:"true" desc:"Further topics that always have series of their own in /metrics, separated by commas."`
	CarrierLease              time.Duration `split_words:"true" default:"3s" desc:"Lease of the elected carrier: how long until a killed one is replaced."`
	CarrierBatch              int           `split_words:"true" default:"500" desc:"Most messages that the carrier moves in one call to Redis."`
	Lease                     time.Duration `split_words:"true" desc:"Lease of a message, extended while its handler runs, for topics without a setting of their own, and for named listeners. A default already set in the store takes precedence; without any it is 30s."`
	MaxAttempts               int           `split_words:"true" desc:"Attempts after which a message without a limit of its own is dead, for topics without a setting of their own, and for named listeners. A default already set in the store takes precedence; without any it is 10."`
	BackoffMin                time.Duration `split_words:"true" desc:"Upper bound of the random delay after the first failed attempt, doubled with each further one, for topics without a setting of their own, and for named listeners. A default already set in the store takes precedence; without any it is 1s."`
	BackoffMax                time.Duration `split_words:"true" desc:"Upper bound of the random delay after many failed attempts, for topics without a setting of their own, and for named listeners. A default already set in the store takes precedence; without any it is 10m."`
	MaxBody                   Size          `split_words:"true" default:"256KiB" desc:"Largest body of a published message."`
	BroadcastKeep             Keep          `split_words:"true" default:"100000,24h" desc:"Broadcasts that a topic's log keeps for listeners that come back: how many, and for how long."`
	DeadKeep                  Keep          `split_words:"true" default:"100000,2160h" desc:"Dead letters that a topic keeps: how many, and for how long. Older ones are removed."`
	DoneKeep                  Keep          `split_words:"true" default:"100000,720h" desc:"Messages that succeeded and are kept with their results, of a topic: how many, and for how long at the longest. Those that would be kept for the shortest time are removed first."`
	TopicKeep                 time.Duration `split_words:"true" default:"720h" desc:"How long the counters of an empty topic are kept, and the position of its last broadcast."`
	NatsURL                   NatsURLs      `split_words:"true" desc:"NATS to serve: nats:// or tls://, with USER:PASSWORD@ or TOKEN@ if it is required. Several, separated by commas, are servers of one cluster."`
	NatsCredsFile             string        `split_words:"true" desc:"Credentials file of a user of NATS, as nsc writes it."`
	NatsCAFile                string        `split_words:"true" desc:"File of PEM certificates to trust, for NATS with TLS."`
	NatsPrefix                string        `split_words:"true" default:"bellhop" desc:"Prefix of all subjects of NATS."`
	NatsJetstream             string        `split_words:"true" desc:"JetStream stream that receives broadcasts, so that none is lost while NATS is away."`
	PushAllow                 string        `split_words:"true" desc:"To which URLs pushes may go: public, for every address of the Internet, and addresses or nets such as 10.1.0.0/16, separated by commas. Empty: this daemon pushes to no URL. It trusts the authorities of its machine; further ones stand in a file that SSL_CERT_FILE names in its environment."`
	ArchiveURL                DatabaseURL   `split_words:"true" desc:"PostgreSQL that keeps what died, expired or was dropped, and what was acknowledged in topics with the setting archive_acked: postgres://USER@HOST/DATABASE. The schema bellhop is made in it."`
	ArchivePasswordFile       string        `split_words:"true" desc:"File that holds the password of the archive; overrides the one in ARCHIVE_URL. Read again for each connection."`
	OutboxURL                 DatabaseURLs  `split_words:"true" desc:"PostgreSQL that has an outbox, as bellhop outbox install makes it: what transactions publish there is relayed once they are committed: postgres://USER@HOST/DATABASE. Several are separated by spaces."`
	OutboxPasswordFile        string        `split_words:"true" desc:"File that holds the password of the outboxes; overrides those in OUTBOX_URL. Read again for each connection."`
	ShutdownTimeout           time.Duration `split_words:"true" default:"20s" desc:"How long an orderly stop may take; handlers may finish within that time."`
	LogLevel                  slog.Level    `split_words:"true" default:"info" desc:"Lowest level that is logged: debug, info, warn or error."`
	LogFormat                 string        `split_words:"true" default:"text" desc:"Format of the log: text or json."`
}

// Limits of settings.
const (
	maxMaxBody         = 64 << 20
	maxShutdownTimeout = time.Hour
)

// Load reads the configuration from an environment, such as that of os.Environ. A setting that
// names a file, if it is not set, comes from systemd's credentials. The error lists all faults, one a
// line: values that cannot be read or are out of range, and unknown BELLHOP_
// variables. With an error Load returns the settings that could be read.
func Load(env []string) (Config, error) {
	var c Config
	faults := &multierror.Error{ErrorFormat: lines}
	unread := make(map[string]bool)
	v := reflect.ValueOf(&c).Elem()
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if err := readField(env, field, v.Field(i)); err != nil {
			name := settingName(field)
			unread[name] = true
			faults = multierror.Append(faults, fault.Renamed(name, err))
		}
	}
	reported := make(map[string]bool) // two parts may check the same setting
	for _, f := range c.faults(env) {
		text := f.Field + ": " + f.Error()
		if !unread[f.Field] && !reported[text] {
			faults = multierror.Append(faults, fault.Renamed(f.Field, fmt.Errorf("%s: %w", f.Field, f.Err)))
		}
		reported[text] = true
	}
	faults = multierror.Append(faults, unknown(env)...)
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

// readField reads one setting. It is zero if it cannot be read.
func readField(env []string, field reflect.StructField, into reflect.Value) error {
	name := settingName(field)
	text, set := environ.Lookup(env, name)
	if file := credential(env, name); file != "" && !set {
		into.SetString(file)
		return nil
	}
	standard := field.Tag.Get("default")
	switch {
	case text == "" && (standard == "" || set && field.Type.Kind() == reflect.String):
		return nil // empty, as the environment file shows it
	case text == "" && set:
		return fmt.Errorf("%s: it is empty; leave it out for the default, %s", name, standard)
	case text != "" && field.Type == reflect.TypeFor[time.Duration](): // envconfig knows no days
		d, err := fields.ParseDuration(name, text)
		if err != nil {
			return errors.New(strings.TrimPrefix(err.Error(), notify.ErrInvalid.Error()+" "))
		}
		into.SetInt(int64(d))
		return nil
	}
	value, err := decode(field, cmp.Or(text, standard))
	into.Set(value)
	if err != nil {
		return fmt.Errorf("%s %q: write %s", name, text, grammar(into.Interface()))
	}
	return nil
}

// decode has envconfig decode the text of a field, alone: envconfig stops at the first fault, while
// Load reports all. envconfig takes a field that is not in the process's environment from the tag
// default; no variable has a = in its name.
func decode(field reflect.StructField, text string) (reflect.Value, error) {
	field.Tag = reflect.StructTag(fmt.Sprintf("default:%q", text))
	one := reflect.New(reflect.StructOf([]reflect.StructField{field}))
	err := envconfig.Process(envPrefix+"=", one.Interface())
	return one.Elem().Field(0), err
}

// settingNames are the names of all variables, in the order of the fields. envconfig shows them only in a template of
// its usage, which takes a millisecond.
var settingNames = sync.OnceValue(func() []string {
	var names strings.Builder
	if err := envconfig.Usagef(envPrefix, &Config{}, &names, "{{range .}}{{usage_key .}} {{end}}"); err != nil {
		panic(err) // it is part of the program
	}
	return strings.Fields(names.String())
})

// settingName returns the name of the variable of a field of Config.
func settingName(field reflect.StructField) string { return settingNames()[field.Index[0]] }

// grammar describes how to write a value of a type.
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

// faults returns the faults of values that could be read. Each part checks its own
// options; faults adds the settings that belong to no part.
func (c *Config) faults(env []string) []*fault.Fault {
	return slices.Concat(
		ofPart("REDIS", c.checkRedis()), c.httpFaults(), c.natsFaults(), c.archiveFaults(), c.outboxFaults(), ofPart("PUSH", c.checkPush()),
		ofPart("CARRIER", c.Carrier(nil).Check()), ofPart("", c.checkSettings(env)),
		fault.All(errors.Join(
			fault.Within("BELLHOP_METRICS_TOPICS", "topic limit of metrics", c.MetricsTopics, 1, metrics.MaxTopicLimit),
			fault.Within("BELLHOP_MAX_BODY", "max body", int(c.MaxBody), 1, maxMaxBody),
			fault.Within("BELLHOP_SHUTDOWN_TIMEOUT", "shutdown timeout", c.ShutdownTimeout, time.Millisecond, maxShutdownTimeout),
			c.checkLogFormat(),
		)),
	)
}

// settingsOf has the settings whose options have another name.
var settingsOf = map[string]string{
	"keep_count": "BROADCAST_KEEP", "keep_age": "BROADCAST_KEEP",
	"keep_dead_count": "DEAD_KEEP", "keep_dead_age": "DEAD_KEEP", "keep_done_count": "DONE_KEEP", "keep_done_age": "DONE_KEEP", "keep_topics": "TOPIC_KEEP",
	"attempts": "MAX_ATTEMPTS",
}

// ofPart returns the faults of a part's options under the names of their settings. It
// leaves out options without a setting, which have their defaults.
func ofPart(part string, err error) (all []*fault.Fault) {
	for _, f := range fault.All(err) {
		name := cmp.Or(settingsOf[f.Field], strings.ToUpper(f.Field))
		for _, setting := range []string{envPrefix + "_" + part + "_" + name, envPrefix + "_" + name} {
			if slices.Contains(settingNames(), setting) {
				all = append(all, &fault.Fault{Field: setting, Err: f})
				break
			}
		}
	}
	return all
}

// checkRedis returns the faults of the settings of Redis, which notify checks.
func (c *Config) checkRedis() error {
	if c.MemoryShare == 0 { // notify takes it for the default
		return errors.Join(fault.New("memory_share", "memory share 0%%: use 1 to 100"), c.Notify().Check())
	}
	return c.Notify().Check()
}

func (c *Config) checkPush() error {
	_, err := push.ParseAllow(c.PushAllow)
	return err
}

func (c *Config) checkLogFormat() error {
	if c.LogFormat != "text" && c.LogFormat != "json" {
		return fault.Renamed("BELLHOP_LOG_FORMAT", fmt.Errorf("%q is no format; use text or json", c.LogFormat))
	}
	return nil
}

// natsFaults returns the faults of the settings of NATS, which natsgate checks. A
// setting without effect is a fault, too.
func (c *Config) natsFaults() (all []*fault.Fault) {
	o := c.Nats(nil)
	if c.NatsURL == "" {
		o.URL = nats.DefaultURL
		for _, set := range []struct{ name, value string }{
			{"CREDS_FILE", c.NatsCredsFile}, {"CA_FILE", c.NatsCAFile}, {"JETSTREAM", c.NatsJetstream},
		} {
			if set.value != "" {
				all = append(all, &fault.Fault{Field: envPrefix + "_NATS_" + set.name, Err: errors.New("it is set, and BELLHOP_NATS_URL is not; set both, or leave this out")})
			}
		}
		o.CredsFile, o.CAFile, o.JetStream = "", "", ""
	}
	return append(all, ofPart("NATS", o.Check())...)
}

// archiveFaults returns the faults of the settings of the archive, which archive checks. A
// setting without effect is a fault, too.
func (c *Config) archiveFaults() []*fault.Fault {
	switch {
	case c.ArchiveURL != "":
		return ofPart("ARCHIVE", c.Archive(nil).Check())
	case c.ArchivePasswordFile != "":
		return []*fault.Fault{{Field: envPrefix + "_ARCHIVE_PASSWORD_FILE", Err: errors.New("it is set, and BELLHOP_ARCHIVE_URL is not; set both, or leave this out")}}
	}
	return nil
}

// outboxFaults returns the faults of the settings of outboxes, which outbox checks. A setting without effect is a fault, too.
func (c *Config) outboxFaults() (all []*fault.Fault) {
	seen := make(map[string]bool)
	for _, o := range c.Outboxes(nil) {
		all = append(all, ofPart("OUTBOX", o.Check())...)
		at := o.Address.String()
		if seen[at] {
			all = append(all, &fault.Fault{Field: envPrefix + "_OUTBOX_URL", Err: fmt.Errorf("%s is there twice; leave one out", at)})
		}
		seen[at] = true
	}
	if len(seen) == 0 && c.OutboxPasswordFile != "" {
		all = append(all, &fault.Fault{Field: envPrefix + "_OUTBOX_PASSWORD_FILE", Err: errors.New("it is set, and BELLHOP_OUTBOX_URL is not; set both, or leave this out")})
	}
	return all
}

// Notify returns the configuration of a store.
func (c Config) Notify() notify.Config {
	return notify.Config{
		URL: string(c.RedisURL), Master: c.RedisMaster, Username: c.RedisUsername,
		SentinelUsername: c.RedisSentinelUsername, SentinelPasswordFile: c.RedisSentinelPasswordFile,
		PasswordFile: c.RedisPasswordFile, CAFile: c.RedisCAFile, CertFile: c.RedisCertFile, KeyFile: c.RedisKeyFile,
		Prefix: c.Prefix, Shards: c.Shards, WaitReplicas: c.WaitReplicas, MemoryShare: int(c.MemoryShare),
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
		KeepDoneCount: c.DoneKeep.Count, KeepDoneAge: c.DoneKeep.Age, NoHistory: !c.Console,
	}
}

// Nats returns the options of a gateway to NATS.
func (c Config) Nats(log *slog.Logger) natsgate.Options {
	return natsgate.Options{
		URL: string(c.NatsURL), CredsFile: c.NatsCredsFile, CAFile: c.NatsCAFile, Prefix: c.NatsPrefix,
		JetStream: c.NatsJetstream, KeepCount: c.BroadcastKeep.Count, KeepAge: c.BroadcastKeep.Age,
		MaxBody: int(c.MaxBody), Logger: log,
	}
}

// Archive returns the options of the archive. Without an ArchiveURL there is none.
func (c Config) Archive(log *slog.Logger) archive.Options {
	return archive.Options{URL: string(c.ArchiveURL), PasswordFile: c.ArchivePasswordFile, Room: 2 * c.DeadKeep.Count, Logger: log}
}

// Outboxes returns the options of each outbox. Without an OutboxURL there is none.
func (c Config) Outboxes(log *slog.Logger) (all []outbox.Options) {
	for _, url := range strings.Fields(string(c.OutboxURL)) {
		all = append(all, outbox.Options{Address: database.Address{URL: url, PasswordFile: c.OutboxPasswordFile}, MaxBody: int(c.MaxBody), Logger: log})
	}
	return all
}

// Doctor returns what the doctor compares the store with.
func (c Config) Doctor(log *slog.Logger) doctor.Options {
	return doctor.Options{WaitReplicas: c.WaitReplicas, Defaults: c.topicDefaults(), Archive: c.Archive(log), Outboxes: c.Outboxes(log), NATS: c.Nats(log)}
}

// HTTP returns the options of a gateway to HTTP.
func (c Config) HTTP(log *slog.Logger) httpapi.Options {
	return httpapi.Options{
		TokensFile: c.TokensFile, CertFile: c.TLSCertFile, KeyFile: c.TLSKeyFile, CORSOrigins: c.CORSOrigins.Words(),
		LocalHosts: !c.ListenWithoutTokens, Hosts: c.Hosts.Words(), MetricsNeedToken: c.MetricsNeedToken, Console: c.Console,
		MaxBody: int(c.MaxBody), Logger: log, Doctor: c.Doctor(log),
	}
}

// Subscriber returns the options of a subscriber.
func (c Config) Subscriber(log *slog.Logger) subscribers.SubscriberOptions {
	return subscribers.SubscriberOptions{Grace: c.ShutdownTimeout, Logger: log}
}

// NamedListener returns the options of a named listener.
func (c Config) NamedListener() subscribers.ListenOptions {
	return subscribers.ListenOptions{
		Lease: c.Lease, MaxAttempts: c.MaxAttempts, BackoffMin: c.BackoffMin, BackoffMax: c.BackoffMax,
	}
}
