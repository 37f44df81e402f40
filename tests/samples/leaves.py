"""A program that leaves others behind, as rudely as a program can.

They note their ids in the folder PIDS, and so does the program, which then stays for
STAYS seconds. None of them hears SIGTERM.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

SLEEP = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(f"{sys.argv[1]}/{os.getpid()}", "w").close()
time.sleep(300)
"""
FOLDER = Path(os.environ["PIDS"], str(os.getpid()))

signal.signal(signal.SIGTERM, signal.SIG_IGN)
FOLDER.mkdir()
command = [sys.executable, "-S", "-c", SLEEP, str(FOLDER)]
subprocess.Popen(command)  # holds the output
subprocess.Popen(command, start_new_session=True)
if not (child := os.fork()):  # a daemon, which keeps nothing of ours
    os.setsid()
    if not os.fork():
        os.execve(command[0], command, {})
    os._exit(0)
os.waitpid(child, 0)
while len([*FOLDER.iterdir()]) < 3:
    time.sleep(0.01)
(FOLDER / str(os.getpid())).touch()
time.sleep(float(os.environ["STAYS"]))
