#!/usr/bin/env bash
# Installs the Debian package in a bare Debian and uses it: `dist/tests/deb.sh PACKAGE.deb`. Needs root and mmdebstrap (apt-get install mmdebstrap).
#
# There is no systemd in the chroot. The command of the unit is run as its user, with a socket of the test in the place of systemd's.
# ROOTFS=DIR keeps the bare system for the next run.
set -euo pipefail
PACKAGE=$(realpath "$1")
SUITE=${SUITE:-bookworm}
PORT=${PORT:-19842}
ROOT=${ROOTFS:-$(mktemp -d)}
NODE=
cleanup() {
    [[ -z $NODE ]] || kill "$NODE" 2>/dev/null || true
    umount "$ROOT/proc" 2>/dev/null || true
    [[ -n ${ROOTFS:-} ]] || rm -rf "$ROOT"
}
trap cleanup EXIT
fail() { echo "FAIL deb: $1"; exit 1; }

if [[ ! -e $ROOT/etc/debian_version ]]; then
    mmdebstrap --variant=minbase "$SUITE" "$ROOT" >"$ROOT.log" 2>&1 || { tail "$ROOT.log"; fail "no bare Debian"; }
fi
mountpoint -q "$ROOT/proc" || mount -t proc proc "$ROOT/proc"
chroot "$ROOT" dpkg --purge messina >/dev/null 2>&1 || true
BEGIN=$(date +%s%N)
cp "$PACKAGE" "$ROOT/tmp/messina.deb"
chroot "$ROOT" dpkg -i /tmp/messina.deb >"$ROOT/tmp/dpkg.log" 2>&1 || { cat "$ROOT/tmp/dpkg.log"; fail "dpkg -i"; }

[[ $(stat -c '%a %U' "$ROOT/var/lib/messina") == "700 "* ]] || fail "mode of /var/lib/messina"
[[ $(chroot "$ROOT" stat -c %U:%G /var/lib/messina) == messina:messina ]] || fail "owner of /var/lib/messina"
chroot "$ROOT" grep -q '^data_dir: /var/lib/messina$' /etc/messina/messina.yaml || fail "messina.yaml"
for file in usr/share/man/man1/messina.1.gz usr/share/bash-completion/completions/messina usr/lib/systemd/system/messina.service; do
    [[ -s $ROOT/$file ]] || fail "$file is missing"
done
UNIT=$ROOT/usr/lib/systemd/system/messina.service
COMMAND=$(sed -n 's/^ExecStart=//p' "$UNIT")
USER_OF_UNIT=$(sed -n 's/^User=//p' "$UNIT")

# systemd's end of the socket: ends when the node is ready.
python3 - "$ROOT/tmp/notify" "$ROOT/tmp/ready" <<'PYTHON' &
import os, socket, sys
if os.path.exists(sys.argv[1]):
    os.unlink(sys.argv[1])
notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
notify.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o666)
notify.settimeout(60)
open(sys.argv[2], "w").write("listening\n")
while not (message := notify.recv(4096)).startswith(b"READY=1"):
    print("systemd would hear:", message.decode().replace("\n", " "))
open(sys.argv[2], "w").write("ready\n")
PYTHON
until [[ -e $ROOT/tmp/ready ]]; do sleep 0.02; done
# shellcheck disable=SC2086
(umask "$(sed -n 's/^UMask=//p' "$UNIT")"
 exec chroot --userspec="$USER_OF_UNIT:$USER_OF_UNIT" "$ROOT" /usr/bin/env -C /var/lib/messina NOTIFY_SOCKET=/tmp/notify \
     $COMMAND --native-transport-port "$PORT" --api-port $((PORT + 1)) --prometheus-port 0 --set native_shard_aware_transport_port=0) >"$ROOT/tmp/node.log" 2>&1 &
NODE=$!
for _ in $(seq 600); do
    grep -q '^ready' "$ROOT/tmp/ready" && break
    kill -0 "$NODE" 2>/dev/null || { tail "$ROOT/tmp/node.log"; fail "the node ended"; }
    sleep 0.1
done
grep -q '^ready' "$ROOT/tmp/ready" || { tail "$ROOT/tmp/node.log"; fail "the node did not tell that it is ready"; }
FOUND=$(chroot "$ROOT" messina shell 127.0.0.1 "$PORT" --format csv -e "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
    CREATE TABLE k.t (a int PRIMARY KEY, b text); INSERT INTO k.t (a, b) VALUES (1, 'installed'); SELECT b FROM k.t" | tail -1)
[[ $FOUND == installed ]] || fail "SELECT gave $FOUND"
ELAPSED_MS=$((($(date +%s%N) - BEGIN) / 1000000))
[[ $ELAPSED_MS -lt 60000 ]] || fail "$ELAPSED_MS ms from the package to the answer"
OPEN=$(find "$ROOT/var/lib/messina" \( -perm /077 \) -print | head -3)
[[ -z $OPEN ]] || fail "others may read: $OPEN"
kill -TERM "$NODE"
wait "$NODE" || fail "the node ended with $?"
NODE=
chroot "$ROOT" dpkg --purge messina 2>&1 | grep -q "are kept" || fail "a purge must keep the data and say so"
[[ -d $ROOT/var/lib/messina/data ]] || fail "a purge removed the data"
rm -rf "$ROOT/var/lib/messina" "$ROOT/tmp/ready"
echo "PASS deb: installed, started by the unit's command, and answered in $ELAPSED_MS ms"
