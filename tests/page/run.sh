#!/bin/sh
# The page in Chromium: installs Chromium if it is missing (Debian), then runs run.py; see there.
cd "$(dirname "$0")" || exit 1
if ! command -v chromium >/dev/null && ! command -v google-chrome >/dev/null; then
    sudo=; [ "$(id -u)" -eq 0 ] || sudo=sudo
    $sudo apt-get update -qq && $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core || exit 1
fi
PYTHONDONTWRITEBYTECODE=1 exec python3 run.py "$@"
