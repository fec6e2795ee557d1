package daemon

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
)

// Remedy returns what to do about an error of the connection to Redis, or of
// a Redis that takes no writes. It is empty for any other.
func Remedy(err error) string {
	if remedy := tlsRemedy(err); remedy != "" {
		return remedy
	}
	var reply redis.Error
	var missing *store.RightsError
	switch {
	case errors.As(err, &missing):
		return "" // it says so itself
	case errors.Is(err, store.ErrSettings):
		return "'bellhop doctor --repair' sets them right"
	case store.Refused(err):
		return "'bellhop doctor' tells which right is missing"
	case store.SentinelsRefuse(err):
		return "see to BELLHOP_REDIS_SENTINEL_USERNAME and BELLHOP_REDIS_SENTINEL_PASSWORD_FILE"
	case errors.Is(err, notify.ErrUnreplicated), redis.HasErrorPrefix(err, "NOREPLICAS"):
		return "'bellhop doctor' tells of the replicas"
	case redis.HasErrorPrefix(err, "WRONGPASS"), redis.HasErrorPrefix(err, "NOAUTH"):
		return "see to BELLHOP_REDIS_URL, BELLHOP_REDIS_USERNAME and BELLHOP_REDIS_PASSWORD_FILE"
	case redis.HasErrorPrefix(err, "OOM"):
		return "have some messages handled, cancelled or purged, or raise maxmemory"
	case errors.Is(err, notify.ErrNoRedis):
		return "see that BELLHOP_REDIS_URL names the address and port of a Redis, and rediss:// where it wants TLS"
	case redis.HasErrorPrefix(err, "LOADING"):
		return "it has just started: wait until it has read its data"
	case notify.Retryable(err) && errors.As(err, &reply):
		return "it answers, and does not take this now: try again"
	case notify.Retryable(err):
		return "start one with 'bellhop dev' or set BELLHOP_REDIS_URL"
	}
	return ""
}

// tlsRemedy returns what to do about a handshake that failed.
func tlsRemedy(err error) string {
	var (
		unknown x509.UnknownAuthorityError
		name    x509.HostnameError
		plain   tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &unknown):
		return "name the certificate of its authority in BELLHOP_REDIS_CA_FILE"
	case errors.As(err, &name):
		return "give the server a certificate for the address that stands in BELLHOP_REDIS_URL, or that the sentinels or the Cluster tell"
	case errors.As(err, &plain):
		return "write redis:// in BELLHOP_REDIS_URL where Redis speaks no TLS"
	case strings.Contains(err.Error(), "tls: certificate required"), strings.Contains(err.Error(), "tls: unknown certificate authority"):
		return "show it a certificate that it trusts, with BELLHOP_REDIS_CERT_FILE and BELLHOP_REDIS_KEY_FILE"
	}
	return ""
}
