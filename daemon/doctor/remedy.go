package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/daemon/database"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
)

// Remedies of errors that the doctor also finds by itself.
const (
	masterRemedy = "set BELLHOP_REDIS_URL to its master, or BELLHOP_REDIS_MASTER if Sentinel watches it"
	nodesRemedy  = "name several of the Cluster's nodes in BELLHOP_REDIS_URL, separated by commas"
	diskRemedy   = "see Redis's log; the disk may be full"
)

// Remedy returns what to do about an error of the connection to Redis or to a database, or of a Redis that
// refuses writes. It is empty for any other error.
func Remedy(err error) string {
	if database.IsError(err) {
		return databaseRemedy(err)
	}
	if remedy := tlsRemedy(err); remedy != "" {
		return remedy
	}
	var reply redis.Error
	var missing *reach.RightsError
	switch {
	case errors.As(err, &missing):
		return "" // the error names its remedy
	case errors.Is(err, store.ErrSettings):
		return "'bellhop doctor --repair' repairs them"
	case reach.Refused(err):
		return "'bellhop doctor' names the missing right"
	case reach.SentinelsRefuse(err):
		return "check BELLHOP_REDIS_SENTINEL_USERNAME and BELLHOP_REDIS_SENTINEL_PASSWORD_FILE"
	case errors.Is(err, notify.ErrUnreplicated), redis.HasErrorPrefix(err, "NOREPLICAS"):
		return "'bellhop doctor' reports on the replicas"
	case redis.HasErrorPrefix(err, "WRONGPASS"), redis.HasErrorPrefix(err, "NOAUTH"):
		return "check BELLHOP_REDIS_URL, BELLHOP_REDIS_USERNAME and BELLHOP_REDIS_PASSWORD_FILE"
	case redis.HasErrorPrefix(err, "READONLY"):
		return masterRemedy
	case reach.Moved(err):
		return nodesRemedy
	case redis.HasErrorPrefix(err, "MISCONF"):
		return diskRemedy
	case redis.HasErrorPrefix(err, "max number of clients"):
		return "end other clients of that Redis, or raise its maxclients"
	case redis.HasErrorPrefix(err, "OOM"):
		return "have messages handled, cancelled or purged, or raise maxmemory"
	case errors.Is(err, reach.ErrNoRedis):
		return "check that BELLHOP_REDIS_URL names the address and port of a Redis, with rediss:// if it requires TLS"
	case redis.HasErrorPrefix(err, "LOADING"):
		return "Redis has just started: wait until it has loaded its data"
	case notify.Retryable(err) && errors.As(err, &reply):
		return "Redis answers but cannot do this now: try again"
	case notify.Retryable(err):
		return connectionRemedy(err)
	}
	return ""
}

// connectionRemedy returns what to do about a Redis that is not reached, by how it is not.
func connectionRemedy(err error) string {
	const hangs = "Redis accepts connections and does not answer: look at its SLOWLOG, whether its host swaps, and at the network between"
	var name *net.DNSError
	var dial *net.OpError
	var host *reach.ServerError
	switch {
	case errors.As(err, &name):
		return "check the name of the host in BELLHOP_REDIS_URL"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "start Redis there (systemctl start redis-server), or name another in BELLHOP_REDIS_URL"
	case !timedOut(err):
		return "check that a Redis runs there: systemctl status redis-server"
	case errors.As(err, &dial) && dial.Op == "dial":
		return "check the address in BELLHOP_REDIS_URL, that its host is up, and what firewalls let through"
	case errors.As(err, &host) && strings.HasPrefix(host.Where, "rediss://"):
		return "write redis:// in BELLHOP_REDIS_URL if that Redis does not use TLS. If it does: " + hangs
	}
	return hangs
}

func timedOut(err error) bool {
	var network net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) && network.Timeout()
}

// databaseRemedy returns what to do about an error of a database, which names that; empty if it is for its administrator to say.
func databaseRemedy(err error) string {
	switch {
	case database.LockedOut(err):
		return "check the user in its URL, and the password, or the file that holds it"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "start PostgreSQL there (systemctl start postgresql), or name another in its URL"
	case timedOut(err):
		return "check the address in its URL, and whether that database hangs"
	}
	return ""
}

// tlsRemedy returns what to do about a failed handshake of TLS.
func tlsRemedy(err error) string {
	var (
		unknown x509.UnknownAuthorityError
		name    x509.HostnameError
		plain   tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &unknown):
		return "name a file with the certificate of its authority in BELLHOP_REDIS_CA_FILE"
	case errors.As(err, &name):
		return "give the server a certificate for its address in BELLHOP_REDIS_URL, or for the one that sentinels or the Cluster announce"
	case errors.As(err, &plain):
		return "write redis:// in BELLHOP_REDIS_URL if Redis does not use TLS"
	case strings.Contains(err.Error(), "tls: certificate required"), strings.Contains(err.Error(), "tls: unknown certificate authority"):
		return "show Redis a certificate that it trusts: BELLHOP_REDIS_CERT_FILE and BELLHOP_REDIS_KEY_FILE"
	}
	return ""
}
