#!/usr/bin/env bash
# Makes all packages of one program that exists already:
#
#   cargo build --profile dist && dist/build.sh target/dist/messina OUT_DIR
#
# OUT_DIR gets a Debian package, a Python wheel and an archive, for the machine for which the program was built. Nothing is compiled here.
# The program needs glibc of the version that the packages require, and no other library.
set -euo pipefail

[[ $# -eq 2 && -x $1 ]] || { echo "usage: dist/build.sh PROGRAM OUT_DIR; PROGRAM: cargo build --profile dist makes target/dist/messina" >&2; exit 2; }
BINARY=$(realpath "$1")
mkdir -p "$2"
OUT=$(realpath "$2")
cd "$(dirname "${BASH_SOURCE[0]}")"
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
umask 022

VERSION=$("$BINARY" version | cut -d' ' -f2)
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
# The machine and the oldest glibc, as they are written in the program itself.
read -r MACHINE GLIBC < <(python3 - "$BINARY" <<'PYTHON'
import re, struct, sys
program = open(sys.argv[1], "rb").read()
machine = {62: "x86_64", 183: "aarch64"}[struct.unpack_from("<H", program, 18)[0]]
print(machine, max((int(minor), f"2.{int(minor)}") for minor in re.findall(rb"GLIBC_2\.(\d+)\b", program))[1])
PYTHON
)

common() { # the files that the Debian package and the archive share, below $1
    local root=$1 shell
    install -D -m 755 "$BINARY" "$root/usr/bin/messina"
    install -d "$root/usr/share/man/man1"
    "$BINARY" man --dir "$root/usr/share/man/man1"
    gzip -9n "$root"/usr/share/man/man1/*.1
    for shell in bash:bash-completion/completions/messina zsh:zsh/vendor-completions/_messina fish:fish/vendor_completions.d/messina.fish; do
        install -d "$(dirname "$root/usr/share/${shell#*:}")"
        "$BINARY" completion "${shell%%:*}" >"$root/usr/share/${shell#*:}"
    done
    install -D -m 644 ../LICENSE "$root/usr/share/doc/messina/copyright"
    install -D -m 644 ../CHANGELOG.md "$root/usr/share/doc/messina/CHANGELOG.md"
    gzip -9n "$root/usr/share/doc/messina/CHANGELOG.md"
}

debian() {
    local root=$WORK/deb arch
    arch=$([[ $MACHINE == x86_64 ]] && echo amd64 || echo arm64)
    common "$root"
    install -D -m 644 messina.service "$root/usr/lib/systemd/system/messina.service"
    install -d "$root/etc/messina" "$root/DEBIAN"
    sed 's|^data_dir: .*|data_dir: /var/lib/messina|' ../conf/messina.yaml >"$root/etc/messina/messina.yaml"
    grep -q '^data_dir: /var/lib/messina$' "$root/etc/messina/messina.yaml"
    echo /etc/messina/messina.yaml >"$root/DEBIAN/conffiles"
    install -m 755 debian/postinst debian/prerm debian/postrm "$root/DEBIAN/"
    cat >"$root/DEBIAN/control" <<CONTROL
Package: messina
Version: $VERSION
Architecture: $arch
Section: database
Priority: optional
Maintainer: The Messina project <messina@localhost>
Depends: libc6 (>= $GLIBC), libgcc-s1, passwd
Suggests: systemd
Installed-Size: $(du -sk --exclude=DEBIAN "$root" | cut -f1)
Description: wide-column database for CQL
 A node with the data model, the query language and the SSTables of
 Cassandra and ScyllaDB, its shell and its administration in one program.
CONTROL
    find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
    dpkg-deb --root-owner-group -Zxz --build "$root" "$OUT/messina_${VERSION}_$arch.deb" >/dev/null
}

archive() {
    local name=messina-$VERSION-$MACHINE-linux root
    root=$WORK/$name
    common "$root"
    mv "$root/usr"/* "$root/" && rmdir "$root/usr"
    install -m 644 ../conf/messina.yaml messina.service "$root/"
    cp -r grafana "$root/"
    tar -C "$WORK" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -cJf "$OUT/$name.tar.xz" "$name"
}

debian
archive
python3 python/build_wheel.py "$BINARY" "$VERSION" "$MACHINE" "$GLIBC" "$OUT"
(cd "$OUT" && sha256sum -- *"$VERSION"* >SHA256SUMS)
ls -l "$OUT"
