#!/bin/sh
# Runs before dpkg removes the files: a removal stops all units, an upgrade lets them run.
set -e

case $1 in
remove)
	if [ -d /run/systemd/system ]; then
		systemctl stop bellhop-check.timer bellhop-check.service bellhop.socket bellhop.service 'bellhop-work@*.service' 'bellhop-listen@*.service'
	fi
	;;
esac
