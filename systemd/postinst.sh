#!/bin/sh
# After dpkg put the files in place. Nothing is enabled or started here; what
# runs already is started again as the new version. The socket stays open meanwhile.
set -e

running() { test -d /run/systemd/system; }

case $1 in
configure)
	systemd-sysusers bellhop.conf
	if running; then
		systemctl daemon-reload
		if [ -n "$2" ]; then # from this version
			systemctl try-restart bellhop.service 'bellhop-work@*.service' 'bellhop-listen@*.service' ||
				echo "bellhop: not everything could be restarted; see systemctl status 'bellhop*'" >&2
		fi
	fi
	;;
esac
