#!/bin/sh
# Runs after dpkg removed the files. A purge removes the rest: settings, secrets, what was
# enabled or changed with systemctl, and the users.
set -e

case $1 in
purge)
	rm -rf /etc/bellhop /etc/systemd/system/bellhop.service.d /etc/systemd/system/bellhop.socket.d \
		/etc/systemd/system/bellhop-work@*.service.d /etc/systemd/system/bellhop-listen@*.service.d \
		/etc/systemd/system/bellhop-check.service.d /etc/systemd/system/bellhop-check.timer.d
	rm -f /etc/credstore/bellhop.* /etc/systemd/system/*.wants/bellhop.service /etc/systemd/system/*.wants/bellhop.socket \
		/etc/systemd/system/*.wants/bellhop-work@*.service /etc/systemd/system/*.wants/bellhop-listen@*.service \
		/etc/systemd/system/*.wants/bellhop-check.timer
	rm -rf /var/lib/bellhop-work /etc/systemd/system/bellhop.service.wants
	if getent passwd bellhop-work >/dev/null; then userdel bellhop-work; fi
	if getent group bellhop-work >/dev/null; then groupdel bellhop-work; fi
	if getent group bellhop-secrets >/dev/null; then groupdel bellhop-secrets; fi
	;;
esac
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl reset-failed 'bellhop*' 2>/dev/null || true # none failed
fi
