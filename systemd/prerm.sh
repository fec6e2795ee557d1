#!/bin/sh
# Before dpkg takes the files away: stop what runs from them. An upgrade lets it run.
set -e

case $1 in
remove)
	if [ -d /run/systemd/system ]; then
		systemctl stop bellhop-check.timer bellhop-check.service bellhop.socket bellhop.service 'bellhop-work@*.service' 'bellhop-listen@*.service'
	fi
	;;
esac
