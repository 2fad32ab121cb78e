#!/usr/bin/env python3
"""Audio features of libfovea against float64 computations, and against librosa and torchaudio if they are
installed.

    python3 bench/peers/check_audio.py build/release/libfovea.so [FOLDER of WAV files] [mel_filters.npz]

The folder is that of the free spoken digit data set ($FOVEA_DATA/fsdd, unpacked); 50 of its recordings are
used. Without it, signals made by this script are. mel_filters.npz is Whisper's. Prints the largest
differences and the speed in seconds of audio per second, and fails above the bounds of BOUNDS."""
import ctypes
import pathlib
import sys
import time
import wave

import numpy as np

RECORDINGS = 50
BOUNDS = {"mel": 1e-5, "log": 1e-5, "whisper": 1e-5, "mfcc": 1e-5, "resample": 1e-6}
WHISPER, TORCHAUDIO, LIBROSA = range(3)
COMPLEX, POWER, MEL, LOG_MEL, MFCC = range(5)
HANN, HAMMING = range(2)
SLANEY, HTK = range(2)
LN, LN_PLUS, DB, WHISPER_LOG = range(4)


class Config(ctypes.Structure):
    """fv_features_config."""
    _fields_ = [("struct_size", ctypes.c_size_t), ("output", ctypes.c_int), ("rate", ctypes.c_int64),
                ("fft", ctypes.c_int64), ("window_length", ctypes.c_int64), ("hop", ctypes.c_int64),
                ("window", ctypes.c_int), ("centered", ctypes.c_bool), ("drop_last", ctypes.c_bool),
                ("edge", ctypes.c_int), ("power", ctypes.c_int), ("mels", ctypes.c_int64),
                ("scale", ctypes.c_int), ("mel_area", ctypes.c_bool), ("low", ctypes.c_double),
                ("high", ctypes.c_double), ("log", ctypes.c_int), ("floor", ctypes.c_double),
                ("top_db", ctypes.c_double), ("coefficients", ctypes.c_int64), ("compute", ctypes.c_int)]


class Fovea:
    """The part of fovea/audio.h that is checked here."""

    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        self.lib.fv_ctx_message.restype = ctypes.c_char_p
        for name in ("fv_features_frames", "fv_features_width", "fv_sound_length"):
            getattr(self.lib, name).restype = ctypes.c_int64
        self.lib.fv_sound_samples.restype = ctypes.POINTER(ctypes.c_float)
        self.ctx = ctypes.c_void_p()
        self.call("fv_ctx_create", None, ctypes.byref(self.ctx))

    def call(self, name, *arguments):
        status = getattr(self.lib, name)(*arguments)
        if status:
            raise RuntimeError(f"{name}: {self.lib.fv_ctx_message(self.ctx).decode()}")

    def config(self, preset, **settings):
        cfg = Config()
        self.lib.fv_features_config_init(ctypes.byref(cfg), ctypes.c_size_t(ctypes.sizeof(cfg)), preset)
        for key, value in settings.items():
            setattr(cfg, key, value)
        return cfg

    def features(self, cfg):
        front = ctypes.c_void_p()
        self.call("fv_features_create", self.ctx, ctypes.byref(cfg), ctypes.byref(front))
        return front

    def run(self, front, x):
        x = np.ascontiguousarray(x, np.float32)
        frames = self.lib.fv_features_frames(front, ctypes.c_int64(len(x)))
        out = np.empty((frames, self.lib.fv_features_width(front)), np.float32)
        self.call("fv_features_run", self.ctx, front, x.ctypes.data_as(ctypes.c_void_p),
                  ctypes.c_int64(len(x)), out.ctypes.data_as(ctypes.c_void_p))
        return out

    def compute(self, cfg, x):
        front = self.features(cfg)
        out = self.run(front, x)
        self.lib.fv_features_destroy(ctypes.byref(front))
        return out

    def filters(self, cfg):
        out = np.empty((cfg.mels, cfg.fft // 2 + 1), np.float32)
        self.call("fv_mel_filters", self.ctx, ctypes.byref(cfg), out.ctypes.data_as(ctypes.c_void_p))
        return out

    def resample(self, x, old, new):
        x = np.ascontiguousarray(x, np.float32)
        sound = ctypes.c_void_p()
        self.call("fv_sound_create", self.ctx, ctypes.c_int64(old), ctypes.c_int64(1),
                  ctypes.c_int64(len(x)), x.ctypes.data_as(ctypes.c_void_p), ctypes.byref(sound))
        self.call("fv_sound_resample", self.ctx, ctypes.byref(sound), ctypes.c_int64(new))
        n = self.lib.fv_sound_length(sound)
        out = np.ctypeslib.as_array(self.lib.fv_sound_samples(sound, ctypes.c_int64(0)), (n,)).copy()
        self.lib.fv_sound_free(ctypes.byref(sound))
        return out


# ---- float64 computations, from the definitions ------------------------------------------------


def mel_filters(rate, fft, mels, low, high, scale, area):
    def to_mel(f):
        if scale == HTK:
            return 2595 * np.log10(1 + f / 700)
        return f / (200 / 3) if f < 1000 else 15 + np.log(f / 1000) * 27 / np.log(6.4)

    def to_hz(m):
        if scale == HTK:
            return 700 * (10 ** (m / 2595) - 1)
        return np.where(m < 15, m * 200 / 3, 1000 * np.exp((m - 15) * np.log(6.4) / 27))

    points = to_hz(np.linspace(to_mel(low), to_mel(high), mels + 2))
    hz = np.arange(fft // 2 + 1) * rate / fft
    up = (hz - points[:-2, None]) / np.diff(points)[:-1, None]
    down = (points[2:, None] - hz) / np.diff(points)[1:, None]
    filters = np.maximum(0, np.minimum(up, down))
    return filters * (2 / (points[2:] - points[:-2]))[:, None] if area else filters


def spectrum(cfg, x):
    fft, length = cfg.fft, cfg.window_length or cfg.fft
    angle = 2 * np.pi * np.arange(length) / length
    window = np.zeros(fft)
    left = (fft - length) // 2
    window[left:left + length] = (0.5 - 0.5 * np.cos(angle) if cfg.window == HANN
                                  else 0.54 - 0.46 * np.cos(angle))
    x = np.asarray(x, np.float64)
    if cfg.centered:
        x = np.pad(x, fft // 2, mode="reflect" if cfg.edge == 0 else "constant")
    frames = 1 + (len(x) - fft) // cfg.hop - cfg.drop_last
    rows = x[np.arange(frames)[:, None] * cfg.hop + np.arange(fft)] * window
    return np.fft.rfft(rows)


def mel_power(cfg, x):
    filters = mel_filters(cfg.rate, cfg.fft, cfg.mels, cfg.low, cfg.high or cfg.rate / 2, cfg.scale,
                          cfg.mel_area)
    return np.abs(spectrum(cfg, x)) ** cfg.power @ filters.T


def log_mel(cfg, mel):
    if cfg.log == LN:
        return np.log(np.maximum(mel, cfg.floor))
    if cfg.log == LN_PLUS:
        return np.log(mel + cfg.floor)
    if cfg.log == DB:
        db = 20 / cfg.power * np.log10(np.maximum(mel, cfg.floor))
        return np.maximum(db, db.max() - cfg.top_db) if cfg.top_db else db
    log = np.log10(np.maximum(mel, cfg.floor))
    return (np.maximum(log, log.max() - 8) + 4) / 4


def mfcc(cfg, log):
    m, c = np.arange(cfg.mels), np.arange(cfg.coefficients)[:, None]
    dct = np.sqrt(2 / cfg.mels) * np.cos(np.pi * c * (m + 0.5) / cfg.mels)
    dct[0] /= np.sqrt(2)
    return log @ dct.T


# ---- checks --------------------------------------------------------------------------------------


class Worst:
    def __init__(self):
        self.error = {}
        self.bounds = {}

    def add(self, name, found, expected, bound, relative=True):
        error = np.abs(np.asarray(found, np.float64) - expected).max() if found.size else 0
        if found.shape != expected.shape:
            raise SystemExit(f"check_audio: {name}: shape {found.shape}, expected {expected.shape}")
        if relative:
            error /= np.abs(expected).max()
        self.error[name] = max(self.error.get(name, 0), float(error))
        self.bounds[name] = bound

    def report(self):
        wrong = [name for name, error in self.error.items() if not error <= self.bounds[name]]
        for name, error in self.error.items():
            print(f"{name:44} {error:.2e} (bound {self.bounds[name]:.0e})")
        return wrong


def recordings(folder):
    if folder is None:
        random = np.random.default_rng(1)
        for _ in range(8):
            n = int(random.integers(3000, 9000))
            t = np.arange(n) / 8000
            sweep = np.sin(2 * np.pi * (200 + 1500 * t) * t) * np.hanning(n)
            yield 8000, (sweep + 0.01 * random.standard_normal(n)).astype(np.float32)
        return
    files = sorted(pathlib.Path(folder).rglob("*.wav"))
    for i in range(RECORDINGS):
        with wave.open(str(files[i * len(files) // RECORDINGS])) as w:
            data = np.frombuffer(w.readframes(w.getnframes()), "<i2")
            yield w.getframerate(), (data / 32768).astype(np.float32)


def check_definitions(fovea, sounds, worst):
    forms = {
        "whisper at 8 kHz": fovea.config(WHISPER, rate=8000, fft=200, hop=80, mels=40),
        "whisper": fovea.config(WHISPER),
        "torchaudio": fovea.config(TORCHAUDIO, rate=8000, mels=64),
        "librosa": fovea.config(LIBROSA, rate=8000, fft=512, hop=128, mels=64),
        "HTK, Hamming, window of 320 in 400": fovea.config(WHISPER, window=HAMMING, window_length=320,
                                                           scale=HTK, low=20.0, high=7600.0),
        "magnitude, fft 257 (prime)": fovea.config(TORCHAUDIO, fft=257, hop=100, power=1, mels=32, coefficients=13),
    }
    for x in sounds:
        for name, cfg in forms.items():
            cfg.output = MEL
            expected = mel_power(cfg, x)
            worst.add(f"mel: {name}", fovea.compute(cfg, x), expected, BOUNDS["mel"])
            cfg.output, cfg.log, keep = LOG_MEL, LN, cfg.log
            log = fovea.compute(cfg, x)
            loud = expected > max(1e-10, 1e-3 ** cfg.power * expected.max())
            worst.add(f"ln mel above -60 dB: {name}", log[loud],
                      np.log(expected[loud]), BOUNDS["log"])
            cfg.log = keep
            worst.add(f"log-mel: {name}", fovea.compute(cfg, x), log_mel(cfg, expected), 1e-4)
            cfg.compute = 1
            worst.add(f"log-mel in double: {name}", fovea.compute(cfg, x), log_mel(cfg, expected), 2e-7)
            cfg.output = MFCC
            worst.add(f"MFCC in double: {name}", fovea.compute(cfg, x), mfcc(cfg, log_mel(cfg, expected)),
                      2e-7)
            cfg.compute = 0


def check_librosa(fovea, sounds, worst):
    import librosa
    for mels, rate, fft, htk, norm in ((80, 16000, 400, False, "slaney"), (128, 16000, 400, False, "slaney"),
                                       (128, 22050, 2048, False, "slaney"), (40, 8000, 256, True, None)):
        cfg = fovea.config(LIBROSA, mels=mels, rate=rate, fft=fft, scale=HTK if htk else SLANEY,
                           mel_area=norm is not None)
        expected = librosa.filters.mel(sr=rate, n_fft=fft, n_mels=mels, htk=htk, norm=norm)
        print(f"librosa filters {mels} x {fft // 2 + 1}: {int((fovea.filters(cfg) != expected).sum())} "
              f"of {expected.size} floats differ")
        worst.add("librosa filters", fovea.filters(cfg), expected, 1e-7)
    for x in sounds:
        cfg = fovea.config(LIBROSA, rate=8000, output=MEL, fft=512, hop=128)
        worst.add("librosa.feature.melspectrogram", fovea.compute(cfg, x),
                  librosa.feature.melspectrogram(y=x, sr=8000, n_fft=512, hop_length=128).T, 1e-5)
        cfg.output = MFCC
        worst.add("librosa.feature.mfcc", fovea.compute(cfg, x),
                  librosa.feature.mfcc(y=x, sr=8000, n_fft=512, hop_length=128).T, 1e-5)


def check_torchaudio(fovea, sounds, worst):
    import torch
    torch.version.cuda = None  # only the CPU is used; torchaudio may be built for another CUDA
    import torchaudio
    for x in sounds:
        y = torch.from_numpy(x)
        for old, new in ((8000, 16000), (44100, 16000), (16000, 11025), (48000, 44100)):
            expected = torchaudio.functional.resample(y.double(), old, new).numpy()
            worst.add(f"torchaudio.functional.resample {old} to {new}", fovea.resample(x, old, new), expected,
                      BOUNDS["resample"])
        arguments = {"n_fft": 400, "hop_length": 200, "n_mels": 64}
        cfg = fovea.config(TORCHAUDIO, rate=8000, mels=64, output=MEL)
        worst.add("torchaudio MelSpectrogram", fovea.compute(cfg, x),
                  torchaudio.transforms.MelSpectrogram(8000, **arguments)(y).numpy().T, 1e-5)
        cfg.output = MFCC
        worst.add("torchaudio MFCC", fovea.compute(cfg, x),
                  torchaudio.transforms.MFCC(8000, 40, melkwargs=arguments)(y).numpy().T, 1e-5)
        cfg.log, cfg.floor = LN_PLUS, 1e-6
        worst.add("torchaudio MFCC, log_mels", fovea.compute(cfg, x),
                  torchaudio.transforms.MFCC(8000, 40, log_mels=True, melkwargs=arguments)(y).numpy().T,
                  1e-5)


def check_whisper(fovea, path, worst):
    with np.load(path) as file:
        for mels in (80, 128):
            expected = file[f"mel_{mels}"]
            found = fovea.filters(fovea.config(WHISPER, mels=mels))
            print(f"Whisper filters, {mels}: {int((found != expected).sum())} of {expected.size} floats differ")
            worst.add("Whisper filters", found, expected, 0)


# ---- speed ---------------------------------------------------------------------------------------


def speed(fovea, peers):
    """Whisper's log-mel of 60 seconds at 16 kHz; runs alternate, medians of 15."""
    x = np.random.default_rng(2).standard_normal(60 * 16000).astype(np.float32) * 0.1
    front = fovea.features(fovea.config(WHISPER, output=MEL))
    runs = {"fovea mel": lambda: fovea.run(front, x)}
    wide = fovea.features(fovea.config(WHISPER))
    runs["fovea log-mel (Whisper)"] = lambda: fovea.run(wide, x)
    runs["fovea resample 16 to 8 kHz"] = lambda: fovea.resample(x, 16000, 8000)
    if "torchaudio" in peers:
        import torch
        import torchaudio
        mel = torchaudio.transforms.MelSpectrogram(16000, n_fft=400, hop_length=160, n_mels=80,
                                                   norm="slaney", mel_scale="slaney")
        y = torch.from_numpy(x)
        runs["torchaudio mel"] = lambda: mel(y)
        runs["torchaudio resample 16 to 8 kHz"] = lambda: torchaudio.functional.resample(y, 16000, 8000)
    if "librosa" in peers:
        import librosa
        runs["librosa mel"] = lambda: librosa.feature.melspectrogram(y=x, sr=16000, n_fft=400,
                                                                     hop_length=160, n_mels=80)
    times = {name: [] for name in runs}
    for _ in range(15):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    for name, list_ in times.items():
        print(f"{name:34} {60 / np.median(list_):8.0f} s of audio per second")


def main():
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    fovea = Fovea(str(pathlib.Path(sys.argv[1]).resolve()))
    worst = Worst()
    folder = sys.argv[2] if len(sys.argv) > 2 and sys.argv[2] else None
    sounds = [x for _, x in recordings(folder)]
    print(f"{len(sounds)} recordings, {sum(map(len, sounds)) / 8000:.1f} s")
    if len(sys.argv) > 3:
        check_whisper(fovea, sys.argv[3], worst)
    check_definitions(fovea, sounds, worst)
    peers = []
    for name, check in (("librosa", check_librosa), ("torchaudio", check_torchaudio)):
        try:
            check(fovea, sounds, worst)
            peers.append(name)
        except ImportError as error:
            print(f"{name} is not installed: {error}")
    wrong = worst.report()
    speed(fovea, peers)
    if wrong:
        raise SystemExit(f"check_audio: above the bound: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
