#!/bin/sh
# Runs after dpkg, or rpm, installed the files. It enables and starts nothing, and restarts running
# units as the new version. The socket stays open meanwhile.
set -e

running() { test -d /run/systemd/system; }

case $1 in
configure | 1 | 2)
	systemd-sysusers bellhop.conf
	if running; then
		systemctl daemon-reload
		if [ -n "$2" ] || [ "$1" = 2 ]; then # there was a version before
			systemctl try-restart bellhop.service 'bellhop-work@*.service' 'bellhop-listen@*.service' ||
				echo "bellhop: not everything could be restarted; see systemctl status 'bellhop*'" >&2
		fi
	fi
	;;
esac
