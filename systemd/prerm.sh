#!/bin/sh
# Runs before dpkg, or rpm, removes the files: a removal stops all units, an upgrade lets them run.
set -e

case $1 in
remove | 0)
	if [ -d /run/systemd/system ]; then
		systemctl stop bellhop-check.timer bellhop-check.service bellhop.socket bellhop.service 'bellhop-work@*.service' 'bellhop-listen@*.service'
	fi
	;;
esac
