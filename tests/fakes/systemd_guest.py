"""A machine of its own under a real systemd: user-mode Linux whose root is this machine's, read-only.

Over it lie an own /etc, /var, /tmp and /opt. Of this machine's units none is started that its packages
do not bring as part of the basic system.

In it: the checkout at /opt/checkout; vllm-sidecar at /opt/vllm-sidecar, installed for the interpreter
that runs the tests, which is copied to where sandboxed services may reach it.
"""

import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from tests.fakes import uml

ROOT = Path(__file__).parents[2]
SYSTEMD = Path("/lib/systemd/systemd")
INTERPRETER = Path(sys.executable).resolve().name
KEPT = "passwd group nsswitch.conf ld.so.cache ld.so.conf ld.so.conf.d login.defs alternatives protocols services"
"""Of /etc."""
LEFT_OUT = (
    *("systemd-udevd.service", "systemd-udev-trigger.service", "systemd-udevd-kernel.socket"),
    *("systemd-udevd-control.socket", "systemd-hwdb-update.service", "systemd-timesyncd.service"),
    *("systemd-update-utmp.service", "systemd-random-seed.service", "systemd-sysusers.service"),
    *("modprobe@.service", "systemd-modules-load.service", "proc-sys-fs-binfmt_misc.automount"),
    *("systemd-pstore.service", "kmod-static-nodes.service", "systemd-remount-fs.service"),
    *("sys-kernel-debug.mount", "sys-kernel-tracing.mount", "sys-kernel-config.mount"),
    *("dev-hugepages.mount", "dbus.socket", "systemd-sysctl.service"),
)
"""Units that take time and that nothing here needs."""
UNITS: Mapping[str, str] = {
    "guest.target": "[Unit]\nRequires=basic.target guest.service\nAfter=basic.target guest.service\n",
    "guest.service": (
        "[Unit]\nAfter=basic.target\n"
        "[Service]\nType=oneshot\nTimeoutStartSec=infinity\nStandardOutput=tty\n"
        "StandardError=tty\nTTYPath=/dev/console\n"
        "ExecStart=/opt/vllm-sidecar/bin/python {program}\n"
        "ExecStopPost=/bin/systemctl poweroff --force --no-block\n"
    ),
}
PREPARED = """
mkdir /mnt/etc /mnt/etc/systemd /mnt/etc/systemd/system
for name in {kept}; do cp -a /etc/$name /mnt/etc/ 2>/dev/null; done
: > /mnt/etc/machine-id
echo guest > /mnt/etc/hostname
echo 127.0.0.1 localhost > /mnt/etc/hosts
for unit in {left_out}; do ln -s /dev/null /mnt/etc/systemd/system/$unit; done
cp {units}/* /mnt/etc/systemd/system/
cat > /mnt/etc/systemd/system.conf <<END
[Manager]
DefaultEnvironment=GLIBC_TUNABLES=$GLIBC_TUNABLES LD_LIBRARY_PATH=/opt/python/lib PYTHONDONTWRITEBYTECODE=1
ShowStatus=no
END
mkdir -p /mnt/opt/checkout /mnt/opt/python /mnt/opt/packages
mount --bind {checkout} /mnt/opt/checkout
mount --bind {python} /mnt/opt/python
mount --bind {packages} /mnt/opt/packages
site=/mnt/opt/vllm-sidecar/lib/python{version}/site-packages
mkdir -p $site /mnt/opt/vllm-sidecar/bin
ln -s /opt/checkout/sidecar $site/sidecar
echo /opt/packages > $site/packages.pth
echo home = /opt/python/bin > /mnt/opt/vllm-sidecar/pyvenv.cfg
ln -s /opt/python/bin/{interpreter} /mnt/opt/vllm-sidecar/bin/python
cat > /mnt/opt/vllm-sidecar/bin/vllm-sidecar <<END
#!/opt/vllm-sidecar/bin/python
from sidecar.cli import entry
entry()
END
chmod 755 /mnt/opt/vllm-sidecar/bin/vllm-sidecar
mount --bind /mnt/etc /etc
mount --rbind /mnt/opt /opt
mount -t tmpfs tmp /var
mkdir -p /var/log/journal /var/lib /var/tmp /var/cache
mount -t tmpfs tmp /tmp
# Empty, it says that this is no container: everything is this system's own.
export container=
exec {systemd} --unit=guest.target
"""


def run(program: str, directory: Path, *, memory: str = "512M", seconds: float = 150) -> str:
    """What a Python program of the checkout prints as root, and the machine until it is off."""
    units = directory / "units"
    units.mkdir()
    for name, text in UNITS.items():
        (units / name).write_text(text.replace("{program}", f"/opt/checkout/{program}"))
    script = PREPARED.format(
        kept=KEPT,
        left_out=" ".join(LEFT_OUT),
        units=units,
        checkout=ROOT,
        python=sys.base_prefix,
        packages=sysconfig.get_path("purelib"),
        version=f"{sys.version_info.major}.{sys.version_info.minor}",
        interpreter=INTERPRETER,
        systemd=SYSTEMD,
    )
    return uml.run(script, directory, memory=memory, seconds=seconds)
